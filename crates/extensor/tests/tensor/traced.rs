//! No number leaves a tensor that is being differentiated: its gradient would be lost on the way.

use extensor::autodiff::{checkpoint, custom_vjp, grad, hessian, jvp, stop_gradient};
use extensor::check::{Options, check_grad};
use extensor::gradients::{all_finite, clip_grad_norm};
use extensor::io::{npy, safetensors};
use extensor::ops::{greater, multiply, sum, unique};
use extensor::optim::{Lbfgs, NewtonCg};
use extensor::{Error, Result, Tensor, Tolerance, tensor};
use std::collections::BTreeSet;
use std::panic::catch_unwind;

type Reader = (&'static str, fn(&Tensor) -> Result<()>);

/// Every way in which numbers leave a tensor of one `f64`, by the name that its error begins with.
const READERS: &[Reader] = &[
    ("to_vec", |x| x.to_vec::<f64>().map(drop)),
    ("item", |x| x.item::<f64>().map(drop)),
    ("get", |x| x.get::<f64>(&[]).map(drop)),
    ("iter", |x| x.iter::<f64>().map(drop)),
    ("as_slice", |x| x.as_slice::<f64>().map(drop)),
    ("to_bytes", |x| x.to_bytes().map(drop)),
    ("save", |x| safetensors::Contents::new().with("", x).to_bytes().map(drop)),
    ("save", |x| safetensors::save(nowhere(), x, &Default::default())),
    ("save", |x| npy::to_bytes(x).map(drop)),
    ("save", |x| npy::write(nowhere(), x)),
    ("save", |x| npy::write_npz(nowhere(), x)),
];

/// A file that nothing is left of.
fn nowhere() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("extensor-traced-{}", std::process::id()))
}

fn refused(op: &str, found: Result<Tensor>) {
    let error = found.expect_err(op);
    assert!(matches!(error, Error::Traced { .. }), "{op}: {error}");
    let sentence = "the tensor is being differentiated, and its gradient would be lost; \
                    if that is meant, write stop_gradient first";
    assert_eq!(error.to_string(), format!("{op}: {sentence}"));
}

#[test]
fn taking_a_number_out_of_a_traced_tensor_is_an_error_in_every_mode_and_at_every_level() {
    let x = tensor(3.0);
    for &(op, read) in READERS {
        let f = move |x: &Tensor| read(x).map(|()| x.clone());
        refused(op, grad(f, &x));
        refused(op, jvp(f, &x, &x).map(|(_, dy)| dy));
        refused(op, hessian(f, &x));
        refused(op, grad(|x| grad(f, x), &x));
        // A constant of the inner derivative that the outer one is taken by.
        refused(op, grad(|a| grad(|x| read(a).map(|()| x * a), &x), &x));
        refused(op, grad(|x| checkpoint(f, x), &x));
        refused(op, check_grad(f, &x, &Options::default()).map(|_| x.clone()));
        // Where the derivative is given, nothing follows the numbers of the function itself.
        let given = custom_vjp(
            move |x: &Tensor| read(x).map(|()| (x.clone(), x.clone())),
            |x: &Tensor, g: &Tensor| multiply(x, g),
        );
        assert_eq!(grad(|x| given(x), &x).unwrap().item::<f64>().unwrap(), 3.0, "{op}");

        let meant = |x: &Tensor| read(&stop_gradient(x)).map(|()| x * x);
        assert_eq!(grad(meant, &x).unwrap().item::<f64>().unwrap(), 6.0, "{op}");
    }
    let _ = std::fs::remove_file(nowhere());
}

#[test]
fn the_list_of_readers_is_whole() {
    let source = include_str!("../../src/tensor/read.rs");
    let public = source.lines().filter_map(|line| line.trim().strip_prefix("pub fn "));
    let names: BTreeSet<&str> = public.map(|rest| rest.split(['<', '(']).next().unwrap()).collect();
    let mut tried: BTreeSet<&str> = READERS.iter().map(|(name, _)| *name).collect();
    tried.insert("to_f64_vec"); // in a test of its own
    assert!(names.len() > 5 && names.is_subset(&tried), "{names:?} are not all in {tried:?}");
}

#[test]
fn to_f64_vec_of_a_traced_tensor_panics_with_that_sentence_as_an_operator_does() {
    let panic = catch_unwind(|| grad(|x| Ok(x * x.to_f64_vec()[0]), &tensor(3.0))).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.starts_with("to_f64_vec: the tensor is being differentiated"), "{text}");
    assert!(text.ends_with("write stop_gradient first"), "{text}");
}

#[test]
fn questions_shapes_and_messages_may_look_at_a_traced_tensor() {
    let x = tensor([3.0, 4.0]);
    let f = |x: &Tensor| {
        assert!(format!("{x} {x:?} {x:.2}").contains("3.00"));
        assert!(x.allclose(x, Tolerance::EXACT) && all_finite(x)?);
        assert!(greater(x, &tensor(0.0))?.to_vec::<bool>()?.iter().all(|&b| b));
        assert_eq!(extensor::ops::argmax(x, 0)?.item::<i64>()?, 1);
        assert_eq!(extensor::ops::nonzero(x)?[0].to_vec::<i64>()?, [0, 1]);
        sum(&(x * x), ..)
    };
    assert_eq!(grad(f, &x).unwrap().to_vec::<f64>().unwrap(), [6.0, 8.0]);
}

#[test]
fn what_chooses_by_numbers_keeps_the_gradient_of_what_it_chose() {
    let x = tensor([3.0, 1.0, 3.0]);
    let squares = |x: &Tensor| sum(&unique(x)?.values, ..);
    assert_eq!(grad(squares, &x).unwrap().to_vec::<f64>().unwrap(), [1.0, 1.0, 0.0]);
    let copied = |x: &Tensor| sum(&x.copied()?, ..);
    assert_eq!(grad(copied, &x).unwrap().to_vec::<f64>().unwrap(), [1.0; 3]);
    // By the norm √(x² + 16), the gradient clipped to norm 1 is x/√(x² + 16).
    let clipped = |x: &Tensor| Ok(clip_grad_norm(&(x.clone(), tensor(4.0)), 1.0)?.0.0);
    let slope = grad(clipped, &tensor(3.0)).unwrap().item::<f64>().unwrap();
    assert!((slope - 16.0 / 125.0).abs() < 1e-15, "{slope}");
}

#[test]
fn minimisers_refuse_a_function_that_is_being_differentiated() {
    let start = tensor([1.0, 2.0]);
    let by = |minimize: &dyn Fn(&Tensor, &Tensor) -> Result<Tensor>| {
        let error = grad(|a| minimize(a, &start), &tensor(3.0)).unwrap_err();
        assert!(matches!(error, Error::Traced { .. }), "{error}");
    };
    let square = |a: &Tensor, x: &Tensor| sum(&((x - a) * (x - a)), ..);
    by(&|a, start| sum(&Lbfgs::new().minimize(|x| square(a, x), start)?.model, ..));
    by(&|a, start| sum(&NewtonCg::new().minimize(|x| square(a, x), start)?.model, ..));
}
