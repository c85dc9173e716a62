//! The training loop, its checkpoints and its files.

use extensor::autodiff::leaves;
use extensor::data::{Batch, Dataset, Loader, Pairs};
use extensor::io::safetensors;
use extensor::nn::models::{Mlp, ResNet};
use extensor::nn::{Mode, Model, class_loss};
use extensor::ops::{Reduce, cross_entropy, divide};
use extensor::optim::{Adam, Ema, Optimizer, Plateau, Schedule, Sgd};
use extensor::precision::{LossScale, Policy};
use extensor::train::metrics::{self, JsonLines};
use extensor::train::tensorboard::{EventFile, FILE_NAME};
use extensor::train::{Directory, End, Evaluation, FitOptions, Flow, Hooks, Measured, Plan};
use extensor::train::{State, StepReport, Trainer};
use extensor::{DType, Error, Key, Result, Tensor, Tree, tensor};
use std::fs;
use std::path::PathBuf;

/// A new folder for a test's files.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("extensor-train-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Points in two classes, apart by a line.
fn points(count: usize) -> Pairs {
    let x = Key::new(3).normal([count, 4], DType::F32).unwrap();
    let rows = x.to_vec::<f32>().unwrap();
    let class = |r: &[f32]| i64::from(r[0] + r[1] > r[2]);
    let y: Vec<i64> = rows.chunks(4).map(class).collect();
    Pairs::new(x, tensor(y)).unwrap()
}

fn loader(batch: usize) -> Loader {
    Loader::new(points(50), batch, Key::new(5)).unwrap().shuffle(true).drop_last(true)
}

fn mlp() -> Mlp {
    Mlp::new(Key::new(1), &[4, 8, 2]).unwrap()
}

fn loss<M: Model>(model: &M, batch: &Batch, mode: &Mode) -> Result<(Tensor, Measured<M>)> {
    let output = model.forward(&batch.inputs, mode)?;
    let loss = class_loss(&extensor::ops::cast(&output.logits, DType::F32)?, &batch.targets, 0.0)?;
    Ok((loss, Measured { metrics: vec![], model: output.model }))
}

/// Writes metrics, evaluates the loss on all points, and stops after a step if told.
struct Watch {
    metrics: JsonLines,
    stop_after: Option<u64>,
    steps: Vec<StepReport>,
    scores: Option<Vec<f64>>,
}

impl Watch {
    fn new(metrics: JsonLines) -> Watch {
        Watch { metrics, stop_after: None, steps: Vec::new(), scores: None }
    }
}

impl<M: Model> Hooks<M> for Watch {
    fn step(&mut self, step: &StepReport) -> Result<Flow> {
        self.metrics.write(step.step, &[("loss", step.loss.into()), ("lr", step.lr.into())])?;
        self.steps.push(step.clone());
        Ok(if self.stop_after == Some(step.step) { Flow::Stop } else { Flow::Continue })
    }

    fn evaluate(&mut self, model: &M) -> Result<Option<Evaluation>> {
        if let Some(scores) = &mut self.scores {
            let score = scores.pop().unwrap_or(0.0);
            return Ok(Some(Evaluation { score, metrics: vec![] }));
        }
        let all: Vec<usize> = (0..50).collect();
        let batch = points(50).batch(&all, Key::new(0))?;
        let found = loss(model, &batch, &Mode::Inference)?.0.item::<f32>()?;
        Ok(Some(Evaluation { score: -f64::from(found), metrics: vec![("loss", f64::from(found))] }))
    }

    fn evaluated(&mut self, step: u64, _: u64, found: &Evaluation, _: bool) -> Result<Flow> {
        self.metrics.write(step, &[("score", found.score.into())])?;
        Ok(Flow::Continue)
    }
}

fn plan() -> Plan {
    Plan::new(23).checkpoint_every(3).evaluate_every(5)
}

/// A state with everything that a state can have.
fn full_state(optimizer: &Adam) -> State<Mlp> {
    let model = mlp();
    let average = Ema::new(&model, 0.9).unwrap();
    let plateau = Plateau::new(0.05).unwrap().rising().patience(0);
    State::new(model, optimizer, Key::new(9)).unwrap().average(average).plateau(plateau)
}

#[test]
fn a_resumed_run_is_bit_identical_to_one_that_never_stopped() {
    let optimizer = Adam::new(0.05).clip_norm(1.0);
    let trainer = |state: State<Mlp>| {
        let schedule = Schedule::one_cycle(0.05, 23).unwrap();
        Trainer::from_state(state, &optimizer).schedule(schedule)
    };
    let whole = folder("whole");
    let directory = Directory::open(whole.join("c"), 2).unwrap();
    let mut watch = Watch::new(JsonLines::create(&whole.join("m.jsonl")).unwrap());
    let mut start = trainer(full_state(&optimizer));
    let loader = loader(8);
    let options = FitOptions::new(plan()).directory(&directory).hooks(&mut watch);
    assert_eq!(start.fit(&loader, loss, options).unwrap(), End::Done);

    for stop in 1..23 {
        let part = folder(&format!("part-{stop}"));
        let parted = Directory::open(part.join("c"), 2).unwrap();
        let mut watch = Watch::new(JsonLines::create(&part.join("m.jsonl")).unwrap());
        watch.stop_after = Some(stop);
        let mut start = trainer(full_state(&optimizer));
        let options = FitOptions::new(plan()).directory(&parted).hooks(&mut watch);
        let end = start.fit(&loader, loss, options).unwrap();
        assert_eq!((start.state.step, end), (stop, End::Stopped));
        // What a killed process would have written after its last checkpoint.
        watch.metrics.write(stop + 1, &[("loss", 1e9.into())]).unwrap();

        let load = |path: &std::path::Path| full_state(&optimizer).load(&safetensors::load(path)?);
        let found = parted.newest(load).unwrap().unwrap();
        assert_eq!((found.step, found.loaded.step), (stop, stop));
        let mut watch = Watch::new(JsonLines::resume(&part.join("m.jsonl"), stop).unwrap());
        let options = FitOptions::new(plan()).directory(&parted).hooks(&mut watch);
        trainer(found.loaded).fit(&loader, loss, options).unwrap();
        let same =
            |name: &str| fs::read(whole.join(name)).unwrap() == fs::read(part.join(name)).unwrap();
        assert!(same("m.jsonl"), "metrics after a stop at {stop}");
        assert!(same("c/step-000000023.safetensors"), "checkpoint after a stop at {stop}");
        fs::remove_dir_all(part).unwrap();
    }
    fs::remove_dir_all(whole).unwrap();
}

#[test]
fn the_number_of_threads_changes_no_bit_of_a_checkpoint() {
    let train = |threads: usize| {
        extensor::threads::with(threads, || {
            let model = ResNet::with_widths(Key::new(2), 1, 3, 1, [4, 4, 4]).unwrap();
            let x = Key::new(4).normal([12, 1, 8, 8], DType::F32).unwrap();
            let y: Vec<i64> = (0..12).map(|i| i % 3).collect();
            let data = Pairs::new(x, tensor(y)).unwrap();
            let loader = Loader::new(data, 4, Key::new(6)).unwrap().shuffle(true);
            let optimizer = Sgd::new(0.05).momentum(0.9);
            let mut trainer = Trainer::new(model, optimizer).unwrap().key(Key::new(7));
            trainer.fit(&loader, loss, Plan::new(4)).unwrap();
            let state = trainer.state;
            // The running statistics are those of training.
            assert_eq!(state.model.bn1.num_batches_tracked.item::<i64>().unwrap(), 4);
            state.contents().to_bytes().unwrap()
        })
    };
    assert!(train(1) == train(2));
}

#[test]
fn micro_batches_make_the_step_of_the_whole_batch() {
    let train = |batch: usize, accumulate: u64| {
        let loader = Loader::new(points(48), batch, Key::new(5)).unwrap();
        let mut trainer = Trainer::new(mlp(), Sgd::new(0.1)).unwrap();
        trainer.fit(&loader, loss, Plan::new(6).accumulate(accumulate)).unwrap();
        trainer.state
    };
    let (whole, parts) = (train(16, 1), train(4, 4));
    assert_eq!((whole.position.epoch, whole.position), (2, parts.position));
    for (a, b) in leaves(&whole.model).into_iter().zip(leaves(&parts.model)) {
        for (x, y) in a.to_f64_vec().iter().zip(b.to_f64_vec()) {
            assert!((x - y).abs() < 1e-6, "{x} {y}");
        }
    }
}

#[test]
fn a_loss_that_is_not_finite_stops_with_the_operation_and_keeps_the_model_before_it() {
    let folder = folder("nan");
    let directory = Directory::open(&folder, 2).unwrap();
    let optimizer = Adam::new(0.01);
    let state = State::new(mlp(), &optimizer, Key::new(9)).unwrap();
    // Divides by zero in the seventh step.
    let calls = std::cell::Cell::new(0);
    let diverging = |model: &Mlp, batch: &Batch, mode: &Mode| {
        calls.set(calls.get() + 1);
        let (value, measured) = loss(model, batch, mode)?;
        let by = if calls.get() >= 7 { 0.0f32 } else { 1.0 };
        Ok((divide(&value, &Tensor::scalar(by))?, measured))
    };
    let options = FitOptions::new(plan()).directory(&directory);
    let ended = Trainer::from_state(state, &optimizer).fit(&loader(8), diverging, options);
    let Err(Error::Diverged { step, what, reason }) = ended else { panic!("it went on") };
    assert_eq!((step, what.as_str()), (7, "the loss is inf"));
    assert!(reason.starts_with("divide: its output is inf"), "{reason}");
    assert_eq!(directory.steps().unwrap().last(), Some(&6));
    let template = State::new(mlp(), &optimizer, Key::new(0)).unwrap();
    let kept = template.load(&safetensors::load(directory.path_of(6)).unwrap()).unwrap();
    assert!(extensor::gradients::all_finite(&kept.model).unwrap());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_overflow_in_f16_is_seen_halved_and_survived() {
    let optimizer = Sgd::new(0.1);
    let state = State::new(mlp(), &optimizer, Key::new(9)).unwrap();
    // So large that the first gradients overflow f16.
    let state = state.scale(LossScale::dynamic(f64::from(1u32 << 24), 1000).unwrap());
    let file = folder("f16");
    let mut watch = Watch::new(JsonLines::create(&file.join("m.jsonl")).unwrap());
    let mut trainer = Trainer::from_state(state, &optimizer).policy(Policy::mixed(DType::F16));
    trainer.fit(&loader(8), loss, FitOptions::new(Plan::new(40)).hooks(&mut watch)).unwrap();
    let state = trainer.state;
    assert!(state.overflows > 0 && state.overflows < 20, "{}", state.overflows);
    assert_eq!(state.scale.value(), f64::from(1u32 << 24) / 2f64.powi(state.overflows as i32));
    assert_eq!(state.optimizer.step, 40 - state.overflows);
    let skipped: Vec<bool> = watch.steps.iter().map(|s| s.skipped).collect();
    assert!(skipped[0] && !skipped[39]);
    assert!(watch.steps[39].loss < watch.steps[0].loss);
    assert_eq!(leaves(&state.model)[0].dtype(), DType::F32);
    fs::remove_dir_all(file).unwrap();
}

/// The logits through layers whose values fit `f16` and whose gradients, scaled, do not.
fn through_a_factor(logits: &Tensor) -> Result<Tensor> {
    Ok((logits / 4096.0) * 4096.0)
}

fn through_a_cube(logits: &Tensor) -> Result<Tensor> {
    let exponent = Tensor::scalar_of(3.0, logits.dtype())?;
    Ok(logits + extensor::ops::power(&(logits * 0.01 + 30.0), &exponent)? * 0.015625)
}

#[test]
fn an_overflow_planted_in_a_layer_is_seen_halves_the_scale_and_is_survived() {
    type Layer = fn(&Tensor) -> Result<Tensor>;
    for (name, layer) in [("a factor", through_a_factor as Layer), ("a cube", through_a_cube)] {
        let steep = |model: &Mlp, batch: &Batch, mode: &Mode| {
            let logits = layer(&model.forward(&batch.inputs, mode)?.logits)?;
            let loss = class_loss(&extensor::ops::cast(&logits, DType::F32)?, &batch.targets, 0.0)?;
            Ok((loss, Measured { metrics: vec![], model: None }))
        };
        let policy = Policy::mixed(DType::F16);
        // One step alone: no gradient, half the scale.
        let batch = points(8).batch(&(0..8).collect::<Vec<_>>(), Key::new(0)).unwrap();
        let batch = Batch { inputs: policy.to_compute(&batch.inputs).unwrap(), ..batch };
        let f = |model: &Mlp| Ok((steep(model, &batch, &Mode::Inference)?.0, ()));
        let found =
            extensor::precision::value_and_grad(f, &mlp(), policy, policy.loss_scale()).unwrap();
        assert!(found.grads.is_none() && found.scale.value() == 32768.0, "{name}");

        let trainer = Trainer::new(mlp(), Sgd::new(0.1)).unwrap().key(Key::new(9));
        let mut trainer = trainer.policy(policy);
        let file = folder("planted");
        let mut watch = Watch::new(JsonLines::create(&file.join("m.jsonl")).unwrap());
        let options = FitOptions::new(Plan::new(40)).hooks(&mut watch);
        assert_eq!(trainer.fit(&loader(8), steep, options).unwrap(), End::Done);
        let state = trainer.state;
        assert!((1..20).contains(&state.overflows), "{}", state.overflows);
        assert_eq!(state.scale.value(), 65536.0 / 2f64.powi(state.overflows as i32));
        assert_eq!(state.optimizer.step, 40 - state.overflows);
        assert!(watch.steps[0].skipped && !watch.steps[39].skipped);
        assert!(watch.steps[39].loss < watch.steps[0].loss);
        assert!(extensor::gradients::all_finite(&state.model).unwrap());
        fs::remove_dir_all(file).unwrap();
    }
}

#[test]
fn training_stops_when_evaluations_bring_nothing_better() {
    let folder = folder("patience");
    let mut trainer = Trainer::new(mlp(), Sgd::new(0.1)).unwrap().key(Key::new(9));
    let mut watch = Watch::new(JsonLines::create(&folder.join("m.jsonl")).unwrap());
    let plan = Plan::new(100).evaluate_every(2).patience(2);
    let directory = Directory::open(folder.join("c"), 1).unwrap();
    // From the last: 0.1, then the best, then two that are no better.
    watch.scores = Some(vec![0.9, 0.4, 0.2, 0.5, 0.1]);
    let options = FitOptions::new(plan).directory(&directory).hooks(&mut watch);
    let end = trainer.fit(&loader(8), loss, options).unwrap();
    let state = trainer.state;
    assert_eq!((state.step, end, state.stale), (8, End::NoBetter, 2));
    let best = state.best.unwrap();
    assert_eq!((best.step, best.score), (4, 0.5));
    assert_eq!(directory.steps().unwrap(), [4, 8]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_checkpoint_of_another_model_or_optimiser_is_refused_by_the_tensors_name() {
    let folder = folder("mismatch");
    let directory = Directory::open(&folder, 1).unwrap();
    let optimizer = Adam::new(0.01);
    let state = State::new(mlp(), &optimizer, Key::new(9)).unwrap();
    let path = directory.save(0, None, &state.contents()).unwrap();
    let wider = Mlp::new(Key::new(1), &[4, 9, 2]).unwrap();
    let refused = |state: State<Mlp>| {
        let file = safetensors::load(&path).unwrap();
        state.load(&file).err().unwrap().to_string()
    };
    let error = refused(State::new(wider, &optimizer, Key::new(9)).unwrap());
    assert!(error.contains("layers.0") && error.contains("[8, 4]"), "{error}");
    let error = refused(State::new(mlp(), &Sgd::new(0.1).momentum(0.9), Key::new(9)).unwrap());
    assert!(error.contains("momentum_buffer"), "{error}");
    let averaged = State::new(mlp(), &optimizer, Key::new(9)).unwrap();
    let averaged = averaged.average(Ema::new(&mlp(), 0.9).unwrap());
    assert!(refused(averaged).contains("average."));
    // A safetensors file that is no checkpoint.
    let plain = folder.join("plain.safetensors");
    safetensors::save(&plain, &mlp(), &Default::default()).unwrap();
    let file = safetensors::load(&plain).unwrap();
    let error = state.load(&file).err().unwrap().to_string();
    assert!(error.contains("format") && error.contains("nothing"), "{error}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_broken_newest_checkpoint_gives_way_to_the_one_before() {
    let folder = folder("broken");
    let directory = Directory::open(&folder, 3).unwrap();
    let optimizer = Sgd::new(0.1).momentum(0.9);
    let state = State::new(mlp(), &optimizer, Key::new(9)).unwrap();
    for step in 1..=3 {
        directory.save(step, None, &state.contents()).unwrap();
    }
    let newest = directory.path_of(3);
    let whole = fs::read(&newest).unwrap();
    let load = |path: &std::path::Path| {
        State::new(mlp(), &optimizer, Key::new(9))?.load(&safetensors::load(path)?)
    };
    for length in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&newest, &whole[..length]).unwrap();
        let found = directory.newest(load).unwrap().unwrap();
        assert_eq!((found.step, found.skipped.len()), (2, 1), "{length} bytes");
    }
    for step in 1..=3 {
        fs::write(directory.path_of(step), "nothing").unwrap();
    }
    assert!(directory.newest(load).is_err());
    fs::write(folder.join(".extensor-1-1.tmp"), "half").unwrap();
    Directory::open(&folder, 3).unwrap();
    assert!(!folder.join(".extensor-1-1.tmp").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn metrics_are_read_back_as_they_were_written_and_cut_off_at_a_step() {
    let path = folder("metrics").join("m.jsonl");
    let mut lines = JsonLines::create(&path).unwrap();
    for step in 1..=5u64 {
        lines
            .write(step, &[("a \"b\"\n", (step as f64 / 3.0).into()), ("t", "x,\"y".into())])
            .unwrap();
    }
    let mut text = fs::read(&path).unwrap();
    text.extend(b"{\"step\":3,\"unfin");
    fs::write(&path, &text).unwrap();
    let mut lines = JsonLines::resume(&path, 4).unwrap();
    lines.write(5, &[("z", f64::INFINITY.into())]).unwrap();
    let read = metrics::read(&path).unwrap();
    assert_eq!(read.len(), 5);
    assert_eq!(read[3], (4, vec![("step".into(), 4.0), ("a \"b\"\n".into(), 4.0 / 3.0)]));
    assert!(read[4].1[1].1.is_nan());
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

/// Every record of an event file, its frame checked by an independent reading of the format.
fn events(bytes: &[u8]) -> Vec<&[u8]> {
    fn crc(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f63b78 } else { crc >> 1 };
            }
        }
        let crc = !crc;
        crc.rotate_right(15).wrapping_add(0xa282ead8)
    }
    let mut found = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        assert_eq!(u32::from_le_bytes(rest[8..12].try_into().unwrap()), crc(&rest[..8]));
        let event = &rest[12..12 + length];
        assert_eq!(
            u32::from_le_bytes(rest[12 + length..16 + length].try_into().unwrap()),
            crc(event)
        );
        found.push(event);
        rest = &rest[16 + length..];
    }
    found
}

#[test]
fn event_files_have_whole_records_with_right_checksums_and_are_cut_off_at_a_step() {
    let folder = folder("events");
    let mut file = EventFile::create(&folder).unwrap();
    for step in 1..=300 {
        file.scalars(step, &[("loss", 0.25)]).unwrap();
    }
    drop(file);
    let path = folder.join(FILE_NAME);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(events(&bytes).len(), 301);
    assert!(events(&bytes)[0].ends_with(b"brain.Event:2"));
    // The tag, then the value as a 32-bit float.
    let value = [&b"\x0a\x04loss\x15"[..], &0.25f32.to_le_bytes()].concat();
    assert!(events(&bytes)[1].ends_with(&value));
    fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    EventFile::resume(&folder, 200).unwrap().scalars(201, &[("loss", 0.5)]).unwrap();
    assert_eq!(events(&fs::read(&path).unwrap()).len(), 202);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_optimiser_is_chosen_at_run_time_and_the_loss_falls() {
    #[derive(Tree, Clone)]
    struct Line {
        weight: Tensor,
    }
    for optimizer in [
        Box::new(Sgd::new(0.5)) as Box<dyn Optimizer<Line>>,
        Box::new(Adam::new(0.05)) as Box<dyn Optimizer<Line>>,
    ] {
        let line = Line { weight: Tensor::zeros([2, 4], DType::F32).unwrap() };
        let mut trainer = Trainer::new(line, optimizer).unwrap();
        let f = |line: &Line, batch: &Batch, _: &Mode| {
            let logits = extensor::ops::linear(&batch.inputs, &line.weight, None)?;
            cross_entropy(&logits, &batch.targets, Reduce::Mean)
        };
        struct Losses(Vec<f64>);
        impl<M> Hooks<M> for Losses {
            fn step(&mut self, step: &StepReport) -> Result<Flow> {
                self.0.push(step.loss);
                Ok(Flow::Continue)
            }
        }
        let mut losses = Losses(Vec::new());
        trainer.fit(&loader(10), f, FitOptions::new(Plan::new(60)).hooks(&mut losses)).unwrap();
        assert!(losses.0[59] < 0.5 * losses.0[0], "{:?}", losses.0);
    }
}

#[test]
fn a_loop_of_ones_own_makes_the_steps_of_fit() {
    let model = ResNet::with_widths(Key::new(2), 1, 3, 1, [4, 4, 4]).unwrap();
    let x = Key::new(4).normal([12, 1, 8, 8], DType::F32).unwrap();
    let y: Vec<i64> = (0..12).map(|i| i % 3).collect();
    let data = Pairs::new(x, tensor(y)).unwrap();
    let loader = Loader::new(data, 4, Key::new(6)).unwrap().shuffle(true);
    let trainer = Trainer::new(model, Adam::new(0.01)).unwrap().key(Key::new(7));
    let trainer = trainer.schedule(Schedule::cosine(0.01, 5, 0.0).unwrap());
    let (mut whole, mut own) = (trainer.clone(), trainer);
    whole.fit(&loader, loss, Plan::new(5)).unwrap();
    for loaded in loader.start_at(Default::default()).unwrap().take(5) {
        let loaded = loaded.unwrap();
        let step = own.step(|model, mode| {
            let output = model.forward(&loaded.batch.inputs, mode)?;
            output.loss(|logits| class_loss(logits, &loaded.batch.targets, 0.0))
        });
        assert!(step.unwrap().is_finite());
        own.state.position = loaded.next;
    }
    assert_eq!(own.model().bn1.num_batches_tracked.item::<i64>().unwrap(), 5);
    // `fit` evaluates after its last step and has nothing to do so with.
    own.state.due = whole.state.due;
    assert!(whole.state.contents().to_bytes().unwrap() == own.state.contents().to_bytes().unwrap());
}

#[test]
fn a_step_that_fails_leaves_the_model_as_it_was_and_names_the_operation() {
    let mut trainer = Trainer::new(tensor([2f32, 0.0]), Sgd::new(0.1)).unwrap();
    let sum = |x: &Tensor| x.sum(..);
    trainer.step(|x, _| sum(x)).unwrap();
    let (before, copy) = (trainer.model().to_vec::<f32>().unwrap(), trainer.state.clone());
    let error = trainer.step(|x, _| sum(&x.log()?)).unwrap_err().to_string();
    assert!(error.starts_with("step 2: the loss is NaN: log: its output is NaN"), "{error}");
    assert!(trainer.step(|x, _| x.reshape([3])).is_err());
    assert_eq!((trainer.state.step, trainer.model().to_vec::<f32>().unwrap()), (1, before.clone()));
    // A copy of the state is not touched by the steps that come after it.
    trainer.step(|x, _| sum(x)).unwrap();
    assert_eq!(copy.model.to_vec::<f32>().unwrap(), before);
    assert_ne!(trainer.model().to_vec::<f32>().unwrap(), before);
}
