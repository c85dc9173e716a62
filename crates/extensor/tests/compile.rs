//! Compiled functions give the bits of the functions themselves, and say what they cannot do.

use extensor::autodiff::{checkpoint, grad, hvp, jvp, leaves, value_and_grad};
use extensor::check::suite::{Plan, compiled};
use extensor::compile::compile;
use extensor::nn::{Mode, models};
use extensor::ops::catalogue::find;
use extensor::optim::{Adagrad, Adam, AdamW, Ema, Groups, Lion, Optimizer, RmsProp, Sgd, State};
use extensor::prelude::*;
use extensor::{Error, Result, debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Key::new(seed).normal(shape, DType::F32).unwrap()
}

fn bits<T: Tree>(tree: &T) -> Vec<Vec<u8>> {
    leaves(tree).into_iter().map(|x| x.to_bytes().unwrap()).collect()
}

/// A few lines of everything: broadcasting, views, products, reductions, values used twice.
fn mixed(x: &Tensor) -> Result<Tensor> {
    let y = x.transpose(..)?.matmul(x)?.add(&tensor(0.5f32))?.tanh()?;
    let row = y.slice(0, 1, 2, 1)?;
    let z = y.multiply(&row)?.softmax(-1)?.subtract(&y.mean(0)?)?;
    z.multiply(&z)?.flip(1)?.add(&y.exp()?)?.sum(..)
}

#[test]
fn values_and_derivatives_of_every_kind_have_the_bits_of_the_eager_call() -> Result<()> {
    let (x, v) = (normal(1, &[5, 4]), normal(2, &[5, 4]));
    for seed in 1..4 {
        let x = normal(seed, &[5, 4]);
        assert_eq!(bits(&compile(mixed).call(&x)?), bits(&mixed(&x)?));
    }
    let slope = compile(|x: &Tensor| grad(mixed, x));
    let value = compile(|x: &Tensor| value_and_grad(mixed, x));
    let along = compile(|(x, v): &(Tensor, Tensor)| jvp(mixed, x, v));
    let second = compile(|(x, v): &(Tensor, Tensor)| hvp(mixed, x, v));
    let again = compile(|x: &Tensor| grad(|x| checkpoint(mixed, x), x));
    for _ in 0..2 {
        assert_eq!(bits(&slope.call(&x)?), bits(&grad(mixed, &x)?));
        assert_eq!(bits(&value.call(&x)?), bits(&value_and_grad(mixed, &x)?));
        let pair = (x.clone(), v.clone());
        assert_eq!(bits(&along.call(&pair)?), bits(&jvp(mixed, &x, &v)?));
        assert_eq!(bits(&second.call(&pair)?), bits(&hvp(mixed, &x, &v)?));
        assert_eq!(bits(&again.call(&x)?), bits(&grad(mixed, &x)?));
    }
    Ok(())
}

fn takes_bf16(name: &str) -> bool {
    find(name).is_ok_and(|record| record.dtypes.contains(&DType::BF16))
}

#[test]
fn every_operation_and_its_derivatives_compiled_have_the_bits_of_the_eager_call() -> Result<()> {
    // All of it, in four dtypes and to the second order: `extensor check --compiled`.
    let plan = Plan { dtypes: vec![DType::BF16], order: 1, ..Plan::default() };
    let wrong: Vec<String> = compiled::run(&plan, &mut |_| ())?
        .iter()
        .filter(|outcome| !outcome.passed())
        // Some are of single and double precision alone.
        .filter(|outcome| outcome.failed > 0 || takes_bf16(outcome.name))
        .map(|outcome| format!("{}: {:#?}", outcome.name, outcome.failures.first()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn whole_training_steps_have_the_bits_of_the_eager_steps() -> Result<()> {
    let model = models::Mlp::new(Key::new(1), &[6, 8, 3])?;
    let optimizer = AdamW::new(1e-2);
    let state = optimizer.init(&model)?;
    let labels = tensor([0i64, 2, 1, 1]);
    type Run = ((models::Mlp, extensor::optim::State<models::Mlp>), Tensor);
    let step = |((model, state), x): &Run| {
        let mode = Mode::Training(Key::new(1));
        let loss =
            |m: &models::Mlp| m.forward(x, &mode)?.logits.cross_entropy(&labels, Reduce::Mean);
        let (loss, grads) = value_and_grad(loss, model)?;
        let (model, state) = optimizer.update(model.clone(), &grads, state.clone())?;
        Ok(((model, state), loss))
    };
    let compiled = compile(step);
    let (mut eager, mut run) = ((model.clone(), state.clone()), (model, state));
    for k in 0..3 {
        let x = normal(k, &[4, 6]);
        let (a, b) = (step(&(eager, x.clone()))?, compiled.call(&(run, x))?);
        assert_eq!(bits(&a), bits(&b), "step {k}");
        (eager, run) = (a.0, b.0);
    }
    Ok(())
}

#[test]
fn it_is_recorded_once_for_each_shape_and_dtype_and_setting() -> Result<()> {
    let calls = AtomicUsize::new(0);
    let f = compile(|(x, factor): &(Tensor, f64)| {
        calls.fetch_add(1, Ordering::Relaxed);
        x.multiply(&Tensor::scalar_of(*factor, x.dtype())?)
    });
    let (x, y) = (tensor([1.0, 2.0]), tensor([1.0, 2.0, 3.0]));
    for _ in 0..3 {
        assert_eq!(f.call(&(x.clone(), 2.0))?.to_vec::<f64>()?, [2.0, 4.0]);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(f.call(&(y, 2.0))?.to_vec::<f64>()?, [2.0, 4.0, 6.0]);
    assert_eq!(f.call(&(x.cast(DType::F32)?, 2.0))?.to_vec::<f32>()?, [2.0, 4.0]);
    assert_eq!(f.call(&(x.clone(), 3.0))?.to_vec::<f64>()?, [3.0, 6.0]);
    assert_eq!(calls.load(Ordering::Relaxed), 4);
    // Strided, broadcast or not: the same program.
    let row = tensor([[1.0, 5.0], [2.0, 6.0]]).slice(1, 0, 1, 1)?.reshape([2])?;
    assert_eq!(f.call(&(row, 2.0))?.to_vec::<f64>()?, [2.0, 4.0]);
    assert_eq!(calls.load(Ordering::Relaxed), 4);
    Ok(())
}

#[test]
fn results_may_be_arguments_constants_and_views_of_each_other() -> Result<()> {
    let constant = tensor([7.0, 8.0]);
    let f = compile(|x: &Tensor| {
        let y = x.exp()?;
        Ok(vec![x.clone(), x.transpose(..)?, constant.clone(), y.slice(0, 1, 2, 1)?, y.clone(), y])
    });
    let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
    let slice = tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]]).slice(0, 1, 3, 1)?;
    for x in [&x, &slice] {
        let y = x.exp()?;
        let want =
            vec![x.clone(), x.transpose(..)?, constant.clone(), y.slice(0, 1, 2, 1)?, y.clone(), y];
        assert_eq!(bits(&f.call(x)?), bits(&want));
    }
    // What was returned stays as it is when the program runs again.
    let first = f.call(&x)?;
    let before = bits(&first);
    f.call(&tensor([[9.0, 9.0], [9.0, 9.0]]))?;
    assert_eq!(bits(&first), before);
    Ok(())
}

#[test]
fn reading_a_number_is_an_error_that_says_what_to_do_and_leaves_everything_usable() -> Result<()> {
    let x = tensor([1.0, -2.0]);
    let branch =
        compile(|x: &Tensor| if x.sum(..)?.item::<f64>()? > 0.0 { x.exp() } else { x.sin() });
    let text = branch.call(&x).unwrap_err().to_string();
    assert!(
        text.starts_with("item: the tensor has no numbers yet")
            && text.contains("where_ instead of if"),
        "{text}"
    );
    let listed = compile(|x: &Tensor| Tensor::from_vec(x.to_vec::<f64>()?, [2]));
    assert!(matches!(listed.call(&x), Err(Error::Recorded { op: "to_vec", .. })));
    let watched = compile(|x: &Tensor| debug::finite(|| x.log()));
    assert!(matches!(watched.call(&x), Err(Error::Recorded { .. })));
    let panics = compile(|x: &Tensor| -> Result<Tensor> { panic!("{}", x.exp()?.len()) });
    assert!(catch_unwind(AssertUnwindSafe(|| panics.call(&x))).is_err());
    let reads = compile(|x: &Tensor| tensor(x.to_f64_vec()).exp());
    assert!(catch_unwind(AssertUnwindSafe(|| reads.call(&x))).is_err());
    assert_eq!(compile(|x: &Tensor| x.exp()).call(&x)?.to_f64_vec(), x.exp()?.to_f64_vec());
    Ok(())
}

#[test]
fn a_tensor_that_outlives_its_recording_is_refused_and_can_be_printed() -> Result<()> {
    let kept = std::sync::Mutex::new(None);
    let f = compile(|x: &Tensor| {
        *kept.lock().unwrap() = Some(x.exp()?);
        x.sin()
    });
    let x = tensor([1.0, 2.0]);
    f.call(&x)?;
    let lost = kept.lock().unwrap().take().unwrap();
    assert_eq!(lost.to_string(), "[...]  f64[2]");
    assert!(lost.is_recorded());
    assert!(matches!(lost.exp(), Err(Error::Recorded { op: "exp", .. })));
    // And not taken for a value of another recording.
    assert!(matches!(
        compile(|x: &Tensor| x.add(&lost)).call(&x),
        Err(Error::Recorded { op: "add", .. })
    ));
    Ok(())
}

#[test]
fn within_each_other_within_derivatives_and_on_many_threads_they_are_the_function() -> Result<()> {
    let x = normal(3, &[4, 4]);
    let inner = compile(mixed);
    let outer = compile(|x: &Tensor| grad(|x| inner.call(x), x));
    assert_eq!(bits(&outer.call(&x)?), bits(&grad(mixed, &x)?));
    assert_eq!(bits(&grad(|x| inner.call(x), &x)?), bits(&grad(mixed, &x)?));
    let slope = compile(|x: &Tensor| grad(mixed, x));
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let slope = &slope;
            scope.spawn(move || {
                for round in 0..20 {
                    let x = normal(100 * seed + round, &[4, 4]);
                    assert_eq!(bits(&slope.call(&x).unwrap()), bits(&grad(mixed, &x).unwrap()));
                }
            });
        }
    });
    Ok(())
}

#[test]
fn errors_of_kernels_are_those_of_the_eager_call_and_the_next_call_works() -> Result<()> {
    let f = |(x, index): &(Tensor, Tensor)| x.take(index, 0);
    let compiled = compile(f);
    let x = tensor([1.0, 2.0, 3.0]);
    for (index, good) in [([0i64, 2], true), ([0, 3], false), ([1, 1], true), ([-1, 0], false)] {
        let given = (x.clone(), tensor(index));
        let (want, got) = (f(&given), compiled.call(&given));
        match (want, got) {
            (Ok(want), Ok(got)) => assert!(good && bits(&want) == bits(&got)),
            (Err(want), Err(got)) => assert!(!good && want == got, "{want} / {got}"),
            _ => panic!("one of them failed"),
        }
    }
    let divide = compile(|(a, b): &(Tensor, Tensor)| a.floor_divide(b));
    assert!(divide.call(&(tensor([4i32]), tensor([2i32]))).is_ok());
    assert!(matches!(
        divide.call(&(tensor([4i32]), tensor([0i32]))),
        Err(Error::DivisionByZero { .. })
    ));
    Ok(())
}

#[test]
fn empty_tensors_and_scalars_are_compiled_too() -> Result<()> {
    let f = |x: &Tensor| Ok((x.exp()?.sum(..)?, x.add(&tensor(1.0))?));
    let compiled = compile(f);
    for x in [tensor(2.0), Tensor::zeros([0, 3], DType::F64)?, Tensor::zeros([0], DType::F64)?] {
        assert_eq!(bits(&compiled.call(&x)?), bits(&f(&x)?));
    }
    Ok(())
}

#[test]
fn keys_are_taken_anew_at_each_call_and_come_back() -> Result<()> {
    let f = |(x, key): &(Tensor, Key)| {
        let [a, b] = key.split();
        let (y, _) = x.dropout(0.5, a)?;
        Ok((y.add(&b.fold_in(7).normal([4], DType::F32)?)?, b))
    };
    let compiled = compile(f);
    for seed in 0..4 {
        let given = (normal(seed, &[4]), Key::new(seed).fold_in(3));
        let (want, got) = (f(&given)?, compiled.call(&given)?);
        assert_eq!((bits(&want.0), want.1), (bits(&got.0), got.1));
    }
    assert_eq!(compiled.recordings(), 1);
    // The mode of a network as well.
    let mode = compile(|(x, mode): &(Tensor, Mode)| match mode {
        Mode::Training(key) => Ok(x.dropout(0.5, *key)?.0),
        Mode::Inference => Ok(x.clone()),
    });
    let x = normal(9, &[64]);
    for seed in [1, 2] {
        let want = x.dropout(0.5, Key::new(seed))?.0;
        let got = mode.call(&(x.clone(), Mode::Training(Key::new(seed))))?;
        assert_eq!(bits(&want), bits(&got));
    }
    assert_eq!(bits(&mode.call(&(x.clone(), Mode::Inference))?), bits(&x));
    assert_eq!(mode.recordings(), 2);
    Ok(())
}

#[test]
fn a_key_has_no_seed_while_it_is_recorded_and_none_afterwards() -> Result<()> {
    let kept = std::sync::Mutex::new(Key::new(0));
    let f = compile(|(x, key): &(Tensor, Key)| {
        *kept.lock().unwrap() = key.fold_in(1);
        x.exp()
    });
    f.call(&(tensor([1.0]), Key::new(1)))?;
    let lost = *kept.lock().unwrap();
    assert_eq!(format!("{lost:?}"), "Key(recorded)");
    assert!(matches!(lost.normal([2], DType::F32), Err(Error::Recorded { .. })));
    // And none for another recording.
    let other = compile(|(x, key): &(Tensor, Key)| Ok(x.dropout(0.5, *key)?.0));
    let given = (tensor([1.0]), lost);
    assert!(matches!(other.call(&given), Err(Error::Recorded { .. })));
    drop(f);
    assert!(matches!(other.call(&given), Err(Error::Recorded { .. })));
    assert!(matches!(lost.fold_in(2).normal([2], DType::F32), Err(Error::Recorded { .. })));
    let reads = compile(|(x, key): &(Tensor, Key)| Ok(x + key.seed() as f64));
    let given = (tensor([1.0]), Key::new(1));
    assert!(catch_unwind(AssertUnwindSafe(|| reads.call(&given))).is_err());
    Ok(())
}

type Mlp = models::Mlp;
type Run = (Mlp, State<Mlp>, Ema<Mlp>);

/// A step with everything that is counted on the host: an optimiser, a clipped norm, a moving average.
fn step_of<'a>(
    optimizer: &'a dyn Optimizer<Mlp>,
) -> impl Fn(&(Run, Tensor, Tensor)) -> Result<(Run, Tensor)> + 'a {
    move |((model, state, average), x, lr)| {
        let labels = tensor([0i64, 2, 1, 1]);
        let mode = Mode::Training(Key::new(1));
        let loss = |m: &Mlp| m.forward(x, &mode)?.logits.cross_entropy(&labels, Reduce::Mean);
        let (loss, grads) = value_and_grad(loss, model)?;
        let (mut model, mut state) = (model.clone(), state.clone());
        optimizer.advance_at(lr, &mut model, &grads, &mut state)?;
        let average = average.clone().update(&model)?;
        Ok(((model, state, average), loss))
    }
}

#[test]
fn steps_of_every_optimiser_are_recorded_once_and_have_the_eager_bits() -> Result<()> {
    let all: [Box<dyn Optimizer<Mlp>>; 9] = [
        Box::new(Sgd::new(0.1)),
        Box::new(Sgd::new(0.1).momentum(0.9).dampening(0.3).clip_norm(0.5)),
        Box::new(Adam::new(1e-2).amsgrad()),
        Box::new(AdamW::new(1e-2).groups(Groups::no_decay()).clip_norm(1e-3)),
        Box::new(AdamW::new(1e-2).clip_value(0.01).clip_norm(1e9)),
        Box::new(RmsProp::new(1e-2)),
        Box::new(Adagrad::new(1e-2).lr_decay(0.1)),
        Box::new(Lion::new(1e-3)),
        Box::new(Adam::new(1e-2).weight_decay(0.1)),
    ];
    for (k, optimizer) in all.iter().enumerate() {
        let model = Mlp::new(Key::new(1), &[6, 8, 3])?;
        let state = optimizer.init(&model)?;
        let average = Ema::new(&model, 0.99)?.warm_up();
        let eager = step_of(&**optimizer);
        let compiled = compile(step_of(&**optimizer));
        let mut a = (model, state, average);
        let (mut b, mut c) = (a.clone(), a.clone());
        for step in 0..5 {
            let (x, lr) = (normal(step, &[4, 6]), tensor(0.01 / (1 + step) as f64));
            let (want, loss) = eager(&(a, x.clone(), lr.clone()))?;
            let (lent, lent_loss) = compiled.call(&(b, x.clone(), lr.clone()))?;
            let (owned, owned_loss) = compiled.call_owned((c, x, lr))?;
            for (got, got_loss) in [(&lent, &lent_loss), (&owned, &owned_loss)] {
                assert_eq!(bits(&want), bits(got), "optimiser {k}, step {step}");
                assert_eq!(bits(&loss), bits(got_loss));
                assert_eq!(want.1.step, got.1.step);
                let norms = [&want, got].map(|run| run.1.grad_norm.map(f64::to_bits));
                assert_eq!(norms[0], norms[1], "optimiser {k}, step {step}");
                assert_eq!((want.2.step, want.2.start_weight), (got.2.step, got.2.start_weight));
            }
            (a, b, c) = (want, lent, owned);
        }
        assert_eq!(compiled.recordings(), 1, "optimiser {k}");
    }
    Ok(())
}

#[test]
fn an_argument_that_is_given_away_is_replaced_in_its_own_memory_and_one_that_is_not_stays()
-> Result<()> {
    let optimizer = Sgd::new(0.1);
    let step = compile(|(x, state): &(Tensor, State<Tensor>)| {
        let gradient = grad(|x| x.square()?.sum(..), x)?;
        optimizer.update(x.clone(), &gradient, state.clone())
    });
    let x = tensor([1.0, -2.0]);
    let state = optimizer.init(&x)?;
    // Somebody else has the same memory: it stays.
    let (y, _) = step.call_owned((x.clone(), state.clone()))?;
    assert_eq!((x.to_vec::<f64>()?, y.to_vec::<f64>()?), (vec![1.0, -2.0], vec![0.8, -1.6]));
    let place = y.as_slice::<f64>()?.as_ptr();
    let (z, _) = step.call_owned((y, state.clone()))?;
    assert_eq!(z.as_slice::<f64>()?.as_ptr(), place);
    let (w, _) = step.call(&(z.clone(), state))?;
    assert_ne!(w.as_slice::<f64>()?.as_ptr(), place);
    assert_eq!(z.to_vec::<f64>()?, [0.8 - 0.2 * 0.8, -1.6 + 0.2 * 1.6]);
    Ok(())
}

#[test]
fn where_a_tensor_is_missing_belongs_to_what_is_recorded() -> Result<()> {
    type Two = (Option<Tensor>, Option<Tensor>);
    let f = compile(|(a, b): &Two| match (a, b) {
        (Some(a), None) => a.exp(),
        (None, Some(b)) => b.sin(),
        _ => Ok(tensor(0.0)),
    });
    let x = tensor(0.5);
    assert_eq!(f.call(&(Some(x.clone()), None))?.item::<f64>()?, x.exp()?.item::<f64>()?);
    assert_eq!(f.call(&(None, Some(x.clone())))?.item::<f64>()?, x.sin()?.item::<f64>()?);
    Ok(())
}

#[test]
fn programs_are_kept_up_to_a_limit_and_many_recordings_are_worth_a_warning() -> Result<()> {
    let said = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = said.clone();
    let f = compile(|x: &Tensor| x.exp())
        .limit(3)
        .warn_with(move |text| heard.lock().unwrap().push(text.to_string()));
    for n in 1..=12 {
        f.call(&Tensor::zeros([n], DType::F32)?)?;
        f.call(&Tensor::zeros([n], DType::F32)?)?;
    }
    assert_eq!((f.recordings(), f.programs()), (12, 3));
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("tests/compile.rs") && said[0].contains("recorded 9 times"));
    assert!(said[0].contains("the argument: f32 [9] instead of f32 [8]"), "{}", said[0]);
    f.clear();
    assert_eq!(f.programs(), 0);
    Ok(())
}

#[test]
fn reading_a_number_names_the_line_that_reads_it() {
    let f = compile(|x: &Tensor| Ok(x * x.item::<f64>()?));
    let line = line!() - 1;
    let text = f.call(&tensor(1.0)).unwrap_err().to_string();
    assert!(text.contains(&format!("tests/compile.rs:{line}:")), "{text}");
}

#[test]
fn a_program_is_explained_in_words_and_as_a_picture() -> Result<()> {
    let f = compile(|x: &Tensor| x.tanh()?.matmul(x)?.softmax(-1)?.sum(..));
    assert_eq!((f.explain(), f.graph()), (String::new(), String::new()));
    f.call(&normal(1, &[4, 4]))?;
    let text = f.explain();
    assert!(text.contains("kernels read") && text.contains("reads 64 B, writes 64 B"), "{text}");
    let picture = f.graph();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert_eq!(picture.matches("<rect").count(), text.lines().count() - 1);
    assert!(picture.contains("<path"));
    Ok(())
}

#[test]
fn a_tensor_from_elsewhere_that_is_being_differentiated_keeps_its_gradient() -> Result<()> {
    let (x, y) = (tensor([1.0, 2.0]), tensor([3.0, -1.0]));
    let slope = grad(|w: &Tensor| compile(|x: &Tensor| x.multiply(w)?.sum(..)).call(&x), &y)?;
    assert_eq!(slope.to_vec::<f64>()?, [1.0, 2.0]);
    let outer = compile(|y: &Tensor| {
        grad(|w: &Tensor| compile(|x: &Tensor| x.multiply(w)?.sum(..)).call_owned(x.clone()), y)
    });
    assert_eq!(outer.call(&y)?.to_vec::<f64>()?, [1.0, 2.0]);
    Ok(())
}
