//! Training on several ranks: the bits of one process, whatever their number.

use extensor::autodiff::{leaves, parameters};
use extensor::data::{Batch, Cut, Dataset, Loader, Pairs, Position};
use extensor::distributed::{Group, threads};
use extensor::io::safetensors;
use extensor::nn::models::{Mlp, ResNet};
use extensor::nn::{Mode, Model, Sequential, class_loss};
use extensor::ops::{cast, divide};
use extensor::optim::{Adagrad, Adam, AdamW, Ema, Groups, Lion, Optimizer, RmsProp, Sgd};
use extensor::precision::{LossScale, Policy};
use extensor::train::{Directory, End, Evaluation, FitOptions, Flow, Hooks, Measured, Plan};
use extensor::train::{State, Statistics, StepReport, Trainer};
use extensor::{DType, Error, Key, Result, Tensor, tensor};
use std::path::PathBuf;
use std::sync::Mutex;

/// A new folder for a test's files.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("extensor-ranks-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
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

/// A model that forgets at random.
fn forgetful() -> Result<Sequential> {
    let model = Sequential::builder(Key::new(1)).linear(4, 11).relu().dropout(0.25);
    model.linear(11, 2).build()
}

/// A model with running statistics, and pictures for it.
fn pictured() -> Result<(ResNet, Loader)> {
    let model = ResNet::with_widths(Key::new(2), 1, 3, 1, [4, 4, 4])?;
    let x = Key::new(4).normal([48, 1, 8, 8], DType::F32)?;
    let y: Vec<i64> = (0..48).map(|i| i % 3).collect();
    Ok((model, Loader::new(Pairs::new(x, tensor(y))?, 16, Key::new(6))?.shuffle(true)))
}

fn loss<M: Model>(model: &M, batch: &Batch, mode: &Mode) -> Result<(Tensor, Measured<M>)> {
    let output = model.forward(&batch.inputs, mode)?;
    let logits = cast(&output.logits, DType::F32)?;
    let loss = class_loss(&logits, &batch.targets, 0.0)?;
    let right = logits.argmax(-1)?.equal(&batch.targets)?;
    let right = cast(&right, DType::F32)?.mean(..)?;
    Ok((loss, Measured { metrics: vec![("right", right)], model: output.model }))
}

/// Keeps what it is told, and says when to stop.
#[derive(Default)]
struct Watch {
    steps: Vec<StepReport>,
    scores: Vec<f64>,
    asked: usize,
    stop_after: Option<u64>,
}

impl<M> Hooks<M> for Watch {
    fn step(&mut self, step: &StepReport) -> Result<Flow> {
        self.steps.push(step.clone());
        Ok(if self.stop_after == Some(step.step) { Flow::Stop } else { Flow::Continue })
    }

    fn evaluate(&mut self, _: &M) -> Result<Option<Evaluation>> {
        self.asked += 1;
        let score = self.scores.pop();
        Ok(score.map(|score| Evaluation { score, metrics: vec![("score", score)] }))
    }
}

/// All bytes of a checkpoint, and every loss and metric, to the last bit.
type Bits = (Vec<u8>, Vec<[u64; 2]>);

/// What training ends with, on the first rank.
fn bits<M: Model + Clone, O: Optimizer<M>>(
    mut trainer: Trainer<M, O>,
    loader: &Loader,
    plan: Plan,
) -> Result<Option<Bits>> {
    let mut watch = Watch::default();
    trainer.fit(loader, loss, FitOptions::new(plan).hooks(&mut watch))?;
    let numbers = watch.steps.iter().map(|step| [step.loss, step.metrics[0].1].map(f64::to_bits));
    let bytes = trainer.whole()?.contents().to_bytes()?;
    Ok(trainer.ranks().is_first().then_some((bytes, numbers.collect())))
}

/// Asserts that these numbers of ranks end with what one process ends with.
fn same_bits(sizes: &[usize], train: impl Fn(&Group) -> Result<Option<Bits>> + Sync) {
    let alone = train(&Group::alone()).unwrap().unwrap();
    assert!(alone.1.iter().flatten().all(|bits| f64::from_bits(*bits).is_finite()));
    for &size in sizes {
        let found = threads(size, &train).unwrap().swap_remove(0).unwrap();
        assert_eq!(found.1, alone.1, "the losses of {size} ranks");
        assert!(found.0 == alone.0, "the checkpoint of {size} ranks");
    }
}

#[test]
fn any_number_of_ranks_makes_the_bits_of_one_process() {
    let scaled = |policy, scale| (Policy::mixed(policy), scale);
    let cases = [
        (Policy::full(DType::F32), LossScale::NONE),
        scaled(DType::BF16, LossScale::fixed(512.0).unwrap()),
        scaled(DType::F16, LossScale::dynamic(65536.0, 3).unwrap()),
    ];
    for (policy, scale) in cases {
        for (parts, accumulate, sizes) in
            [(8, 1, &[2, 3, 4, 8][..]), (5, 1, &[2, 3, 4, 5]), (3, 2, &[2, 3, 4])]
        {
            for compiled in [false, true] {
                same_bits(sizes, |group| {
                    let optimizer = Adam::new(0.05).clip_norm(1.0);
                    let state = State::new(forgetful()?, &optimizer, Key::new(9))?.scale(scale);
                    let trainer = Trainer::from_state(state, optimizer).policy(policy);
                    let mut trainer = trainer.group(group);
                    trainer.compiled = compiled;
                    bits(trainer, &loader(13), Plan::new(5).parts(parts).accumulate(accumulate))
                });
            }
        }
    }
}

#[test]
fn running_statistics_are_the_last_parts_or_the_means_of_all() {
    for statistics in [Statistics::LastPart, Statistics::Mean] {
        for compiled in [false, true] {
            same_bits(&[2, 3, 4], |group| {
                let (model, loader) = pictured()?;
                let trainer = Trainer::new(model, Sgd::new(0.05).momentum(0.9))?.group(group);
                let mut trainer = trainer.statistics(statistics);
                trainer.compiled = compiled;
                bits(trainer, &loader, Plan::new(3).parts(4))
            });
        }
    }
    let after_a_step = |statistics, parts| {
        let (model, loader) = pictured().unwrap();
        let mut trainer = Trainer::new(model, Sgd::new(0.05)).unwrap().statistics(statistics);
        trainer.fit(&loader, loss, Plan::new(1).parts(parts)).unwrap();
        trainer.into_model().bn1
    };
    let (last, mean) = (after_a_step(Statistics::LastPart, 2), after_a_step(Statistics::Mean, 2));
    let whole = after_a_step(Statistics::LastPart, 1);
    // The mean of a batch is the mean of its halves' means.
    for ((mean, last), whole) in mean
        .running_mean
        .to_f64_vec()
        .iter()
        .zip(last.running_mean.to_f64_vec())
        .zip(whole.running_mean.to_f64_vec())
    {
        assert!(
            (mean - whole).abs() < 1e-7 && (last - whole).abs() > 1e-5,
            "{mean} {last} {whole}"
        );
    }
    assert_eq!(mean.num_batches_tracked.item::<i64>().unwrap(), 1);
}

/// Every optimiser, with all that it can be told.
fn optimizers() -> Vec<Box<dyn Optimizer<Sequential>>> {
    let groups = || Groups::no_decay().learning_rate("*.weight", 0.5);
    macro_rules! told {
        ($($made:expr),*) => {
            vec![$(Box::new($made.weight_decay(0.1).groups(groups()).clip_value(0.05).clip_norm(0.1))),*]
        };
    }
    told![
        Sgd::new(0.05),
        Sgd::new(0.05).momentum(0.9).nesterov(),
        Adam::new(0.05),
        AdamW::new(0.05),
        RmsProp::new(0.05),
        Adagrad::new(0.05),
        Lion::new(0.05)
    ]
}

#[test]
fn state_cut_among_ranks_changes_no_bit_with_any_optimiser() {
    for which in 0..optimizers().len() {
        for (policy, average) in
            [(Policy::full(DType::F32), true), (Policy::mixed(DType::BF16), false)]
        {
            same_bits(&[2, 3, 4, 8], |group| {
                let optimizer = optimizers().swap_remove(which);
                let mut state = State::new(forgetful()?, &optimizer, Key::new(9))?;
                if average {
                    let average = Ema::new(&state.model, 0.9)?.warm_up();
                    state = state.average(average);
                }
                let trainer = Trainer::from_state(state, optimizer).policy(policy);
                bits(trainer.group(group).sharded()?, &loader(16), Plan::new(4).parts(8))
            });
        }
    }
    // And a model with buffers, compiled.
    same_bits(&[2, 4], |group| {
        let (model, loader) = pictured()?;
        let trainer = Trainer::new(model, AdamW::new(0.01))?.group(group).compiled().sharded()?;
        bits(trainer, &loader, Plan::new(3).parts(4))
    });
}

#[test]
fn of_state_cut_in_four_each_rank_holds_about_a_quarter() {
    let bytes = |state: &extensor::optim::State<Mlp>| -> usize {
        leaves(state).iter().map(|x| x.len() * x.dtype().size()).sum()
    };
    let model = || Mlp::new(Key::new(1), &[19, 65, 33, 7]);
    let whole = bytes(&Adam::new(0.1).init(&model().unwrap()).unwrap());
    let held = threads(4, |group| {
        let mut trainer = Trainer::new(model()?, Adam::new(0.1))?.group(group).sharded()?;
        trainer.step(|model, _| parameters(model)[0].square()?.sum(..))?;
        // Nothing of the whole is kept alive behind the slices.
        let own = leaves(&trainer.state.optimizer);
        assert!(own.iter().all(|x| x.is_contiguous()));
        Ok(bytes(&trainer.state.optimizer))
    });
    let held = held.unwrap();
    assert_eq!(held.iter().sum::<usize>(), whole);
    let share = *held.iter().max().unwrap() as f64 / whole as f64;
    assert!(share <= 0.27, "{share}");
}

#[test]
fn a_run_of_some_ranks_goes_on_with_others_to_the_same_bytes() {
    let optimizer = || AdamW::new(0.05).clip_norm(1.0);
    let start = || State::new(forgetful()?, &optimizer(), Key::new(9));
    let plan = |steps| Plan::new(steps).parts(6).checkpoint_every(3);
    let go_on = |path: PathBuf, steps: u64, sharded: bool| {
        move |group: &Group| -> Result<()> {
            let directory = Directory::open(&path, 9)?;
            let load = |path: &std::path::Path| start()?.load(&safetensors::load(path)?);
            let state = match directory.newest(load)? {
                Some(found) => found.loaded,
                None => start()?,
            };
            // All have looked before one writes.
            group.barrier()?;
            let mut trainer = Trainer::from_state(state, optimizer()).group(group);
            if sharded {
                trainer = trainer.sharded()?;
            }
            let options = FitOptions::new(plan(steps)).directory(&directory);
            assert_eq!(trainer.fit(&loader(12), loss, options)?, End::Done);
            Ok(())
        }
    };
    let whole = folder("whole");
    go_on(whole.clone(), 9, false)(&Group::alone()).unwrap();
    for (first, second, sharded) in [(1, 4, true), (4, 2, false), (3, 1, false), (2, 6, true)] {
        let parted = folder(&format!("{first}-{second}"));
        threads(first, go_on(parted.clone(), 5, sharded)).unwrap();
        threads(second, go_on(parted.clone(), 9, sharded)).unwrap();
        for step in [3, 6, 9] {
            let name = format!("step-{step:09}.safetensors");
            let read = |folder: &PathBuf| std::fs::read(folder.join(&name)).unwrap();
            assert!(read(&whole) == read(&parted), "{first} then {second} ranks, step {step}");
        }
        std::fs::remove_dir_all(parted).unwrap();
    }
    std::fs::remove_dir_all(whole).unwrap();
}

#[test]
fn the_first_rank_evaluates_and_all_decide_alike() {
    let ends = threads(3, |group| {
        let mut trainer = Trainer::new(forgetful()?, Sgd::new(0.1))?.group(group);
        // From the last: 0.1, then the best, then two that are no better.
        let mut watch = Watch { scores: vec![0.9, 0.4, 0.2, 0.5, 0.1], ..Watch::default() };
        let plan = Plan::new(100).evaluate_every(2).patience(2).parts(3);
        let end = trainer.fit(&loader(8), loss, FitOptions::new(plan).hooks(&mut watch))?;
        let best = trainer.state.best.unwrap();
        assert_eq!((best.step, best.score), (4, 0.5));
        Ok((trainer.state.step, end, watch.asked, watch.steps.len()))
    });
    let end = |asked| (8, End::NoBetter, asked, 8);
    assert_eq!(ends.unwrap(), [end(4), end(0), end(0)]);
}

#[test]
fn one_rank_that_wants_to_stop_stops_all_after_the_same_step() {
    let ends = threads(3, |group| {
        let mut trainer = Trainer::new(forgetful()?, Sgd::new(0.1))?.group(group);
        let stop_after = (group.rank() == 2).then_some(4);
        let mut watch = Watch { stop_after, ..Watch::default() };
        let plan = Plan::new(100).parts(4);
        let end = trainer.fit(&loader(8), loss, FitOptions::new(plan).hooks(&mut watch))?;
        Ok((trainer.state.step, end))
    });
    assert_eq!(ends.unwrap(), [(4, End::Stopped); 3]);
}

#[test]
fn a_nan_on_one_rank_ends_all_with_its_number_and_keeps_the_model_before_it() {
    let path = folder("nan");
    let diverging = |rank: usize, step: u64| {
        let calls = std::cell::Cell::new(0);
        move |model: &Mlp, batch: &Batch, mode: &Mode| {
            calls.set(calls.get() + 1);
            let (value, measured) = loss(model, batch, mode)?;
            let by = if rank == 1 && calls.get() >= step { 0.0f32 } else { 1.0 };
            Ok((divide(&value, &Tensor::scalar(by))?, measured))
        }
    };
    let errors = threads(3, |group| {
        let optimizer = Adam::new(0.01);
        let mlp = Mlp::new(Key::new(1), &[4, 8, 2])?;
        let mut trainer = Trainer::new(mlp, optimizer)?.group(group);
        let directory = Directory::open(&path, 2)?;
        let options = FitOptions::new(Plan::new(20).parts(3)).directory(&directory);
        let ended = trainer.fit(&loader(8), diverging(group.rank(), 5), options);
        Ok((ended.unwrap_err(), trainer.state.step))
    });
    for (error, step) in errors.unwrap() {
        let Error::Diverged { step: at, what, reason } = error else { panic!("{error}") };
        assert_eq!((at, step, what.as_str()), (5, 4, "the loss is inf"));
        assert!(reason.starts_with("on rank 1: divide: its output is inf"), "{reason}");
    }
    assert!(path.join("step-000000004.safetensors").exists());
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn an_overflow_on_one_rank_halves_the_scale_of_all() {
    let found = threads(2, |group| {
        let rank = group.rank();
        let policy = Policy::mixed(DType::F16);
        let trainer = Trainer::new(forgetful()?, Sgd::new(0.1))?.policy(policy);
        let mut trainer = trainer.group(group);
        let steep = |model: &Sequential, batch: &Batch, mode: &Mode| {
            let (value, measured) = loss(model, batch, mode)?;
            // Overflows where the gradients, not the loss, are of f16: on the second rank alone.
            let factor = Tensor::scalar(if rank == 1 { 3e4f32 } else { 1.0 });
            Ok((value.multiply(&factor)?, measured))
        };
        trainer.fit(&loader(8), steep, Plan::new(3).parts(2))?;
        let state = &trainer.state;
        Ok((state.overflows, state.scale.value(), leaves(&state.model)[0].to_vec::<f32>()?))
    });
    let found = found.unwrap();
    assert!(found[0].0 > 0 && found[0].1 < 65536.0);
    assert_eq!(found[0], found[1]);
}

#[test]
fn a_part_counts_by_its_examples() {
    let after_a_step = |parts| {
        let mut trainer = Trainer::new(Mlp::new(Key::new(1), &[4, 8, 2])?, Sgd::new(0.1))?;
        let mut watch = Watch::default();
        let options = FitOptions::new(Plan::new(1).parts(parts)).hooks(&mut watch);
        trainer.fit(&loader(7), loss, options)?;
        let step = &watch.steps[0];
        let weights = parameters(trainer.model())[0].to_f64_vec();
        Ok::<_, Error>([vec![step.loss, step.metrics[0].1], weights].concat())
    };
    let whole = after_a_step(1).unwrap();
    // Of 7 examples: 3 and 4, or 1, 1, 2, 1 and 2.
    for parts in [2, 5] {
        for (a, b) in after_a_step(parts).unwrap().iter().zip(&whole) {
            assert!((a - b).abs() < 1e-6, "{parts} parts: {a} {b}");
        }
    }
}

/// Keeps the numbers of the examples that are asked for.
struct Noted {
    of: Pairs,
    asked: Mutex<Vec<usize>>,
    missing: Option<usize>,
}

impl Noted {
    fn new(missing: Option<usize>) -> Noted {
        Noted { of: points(50), asked: Mutex::default(), missing }
    }
}

impl Dataset for Noted {
    fn len(&self) -> usize {
        self.of.len()
    }

    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        if self.missing.is_some_and(|missing| indices.contains(&missing)) {
            let reason = "example 7 cannot be read".into();
            return Err(Error::File { op: "read", file: "data".into(), reason });
        }
        self.asked.lock().unwrap().extend(indices);
        self.of.batch(indices, key)
    }
}

#[test]
fn a_rank_reads_the_examples_of_its_own_parts_and_no_others() {
    // With a smaller batch at the end of the epoch, and steps that go over its end.
    for (parts, batches, size) in [(1, 1, 1), (4, 1, 2), (5, 1, 3), (3, 2, 4), (7, 3, 8), (1, 3, 3)]
    {
        let whole = Loader::new(points(50), 8, Key::new(5)).unwrap().shuffle(true);
        let expected: Vec<Batch> = whole
            .start_at(Position::default())
            .unwrap()
            .take(12)
            .map(|l| l.unwrap().batch)
            .collect();
        let mut found = vec![Vec::new(); 12];
        for rank in 0..size {
            let data = std::sync::Arc::new(Noted::new(None));
            let loader =
                Loader::new(data.clone(), 8, Key::new(5)).unwrap().shuffle(true).prefetch(0);
            let cut = Cut { batches, parts, rank, size };
            let shares = loader.shares_from(Position::default(), cut).unwrap().take(12);
            let shares: Vec<_> = shares.map(Result::unwrap).collect();
            let own: usize =
                shares.iter().flat_map(|s| &s.parts).map(|(_, batch)| batch.targets.len()).sum();
            assert_eq!(data.asked.lock().unwrap().len(), own);
            for (share, found) in shares.into_iter().zip(&mut found) {
                assert!(share.parts.iter().all(|(number, _)| cut.own(share.of).contains(number)));
                found.extend(share.parts);
            }
        }
        let mut next = 0;
        for (k, (mut parts, batch)) in found.into_iter().zip(expected).enumerate() {
            if k % batches == 0 {
                next = 0;
            }
            parts.sort_by_key(|(number, _)| *number);
            for (number, _) in &parts {
                assert_eq!(*number, next);
                next += 1;
            }
            let all = |of: fn(&Batch) -> &Tensor| -> Vec<f64> {
                parts.iter().flat_map(|(_, batch)| of(batch).to_f64_vec()).collect()
            };
            assert_eq!(all(|b| &b.inputs), batch.inputs.to_f64_vec());
            assert_eq!(all(|b| &b.targets), batch.targets.to_f64_vec());
        }
    }
}

#[test]
fn an_error_on_one_rank_ends_all_with_its_number() {
    let missing = |group: &Group| {
        let data = Noted::new((group.rank() == 1).then_some(7));
        let loader = Loader::new(data, 10, Key::new(5))?;
        let mut trainer = Trainer::new(forgetful()?, Sgd::new(0.1))?.group(group);
        trainer.fit(&loader, loss, Plan::new(20).parts(2))
    };
    let error = threads(2, missing).unwrap_err().to_string();
    assert!(error.contains("rank 1") && error.contains("example 7 cannot be read"), "{error}");
    // Also where the program keeps the error to itself.
    let errors = Mutex::new(Vec::new());
    let kept = |group: &Group| {
        let error = missing(group).unwrap_err().to_string();
        errors.lock().unwrap().push(error);
        Ok(())
    };
    let told = threads(2, kept).unwrap_err().to_string();
    for error in errors.into_inner().unwrap().into_iter().chain([told]) {
        assert!(error.contains("example 7 cannot be read"), "{error}");
    }
    // So does a folder that cannot be written, which is the first rank's alone.
    let path = folder("file");
    let full = |group: &Group| {
        let directory = Directory::open(path.join("checkpoints"), 2)?;
        group.barrier()?;
        if group.is_first() {
            std::fs::remove_dir_all(&path)
                .map_err(|error| Error::Check { op: "test".into(), reason: error.to_string() })?;
        }
        group.barrier()?;
        let mut trainer = Trainer::new(forgetful()?, Sgd::new(0.1))?.group(group);
        trainer.fit(
            &loader(10),
            loss,
            FitOptions::new(Plan::new(20).parts(2)).directory(&directory),
        )
    };
    let error = threads(2, full).unwrap_err().to_string();
    assert!(error.contains("rank 0") && error.contains("checkpoints"), "{error}");
}

#[test]
fn ranks_that_begin_differently_say_who_and_in_what() {
    let begin = |seed: fn(usize) -> u64, batch: fn(usize) -> usize| {
        let fit = move |group: &Group| {
            let model = Mlp::new(Key::new(seed(group.rank())), &[4, 8, 2])?;
            let mut trainer = Trainer::new(model, Sgd::new(0.1))?.group(group);
            trainer.fit(&loader(batch(group.rank())), loss, Plan::new(20).parts(3))
        };
        threads(3, fit).unwrap_err().to_string()
    };
    let error = begin(|rank| 1 + (rank / 2) as u64, |_| 8);
    assert!(error.contains("rank 2") && error.contains("layers.0.weight"), "{error}");
    let error = begin(|_| 1, |rank| 8 + rank % 2);
    assert!(error.contains("rank 1") && error.contains("batches of 9"), "{error}");
}

#[test]
fn fewer_parts_than_ranks_are_refused_in_one_sentence() {
    let fit = |batch: usize, plan: Plan, drop_last: bool| {
        let fit = move |group: &Group| {
            let loader = loader(batch).drop_last(drop_last);
            let mut trainer = Trainer::new(forgetful()?, Sgd::new(0.1))?.group(group);
            trainer.fit(&loader, loss, plan)
        };
        threads(4, fit).map_err(|error| error.to_string())
    };
    let error = fit(10, Plan::new(2).parts(3), true).unwrap_err();
    let expected =
        "fit: parts is 3 for each batch, which makes 3 in a step, expected 4 or more in every step";
    assert!(error.contains(expected), "{error}");
    // The last batch of the epoch has two examples.
    assert!(fit(12, Plan::new(2).parts(6), false).unwrap_err().contains("makes 2 in a step"));
    assert!(fit(12, Plan::new(2).parts(6), true).is_ok());
    assert!(fit(10, Plan::new(2).parts(1).accumulate(4), true).is_ok());
}

#[test]
fn a_loop_of_ones_own_makes_steps_of_a_part_for_each_rank() {
    let make = |group: &Group| {
        let mut trainer = Trainer::new(tensor([1f32, 2.0]), Sgd::new(0.1))?.group(group);
        let loss = trainer.step(|x, _| {
            let own = Tensor::scalar(1.0 + group.rank() as f32);
            x.multiply(&own)?.sum(..)
        })?;
        Ok((loss, trainer.model().to_vec::<f32>()?))
    };
    // The mean of the losses 3, 6 and 9, and of the gradients 1, 2 and 3.
    assert_eq!(threads(3, make).unwrap(), vec![(6.0, vec![0.8, 1.8]); 3]);
}
