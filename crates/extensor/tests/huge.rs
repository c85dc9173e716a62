//! What an argument asks for and no machine has is an error; what takes long can be ended.

use extensor::autodiff::{jacobian, jacobian_forward, jacobian_reverse, vjp};
use extensor::ops::{ConvOptions, Order};
use extensor::{DType, Error, Result, Tensor, interrupt, tensor};
use std::time::{Duration, Instant};

const HUGE: usize = 1 << 40;

/// One element, seen so many times.
fn view(shape: impl Into<extensor::Shape>, dtype: DType) -> Tensor {
    let shape = shape.into();
    extensor::ops::broadcast_to(&Tensor::ones([1], dtype).unwrap(), &shape).unwrap()
}

fn no_memory<T>(op: &str, result: Result<T>) {
    match result.map(|_| "a result") {
        Err(Error::OutOfMemory { .. } | Error::Overflow { .. }) => {}
        other => panic!("{op}: {other:?}"),
    }
}

#[test]
fn every_allocation_that_follows_from_an_argument_is_an_error_where_there_is_no_memory() {
    let x = Tensor::ones([3], DType::F32).unwrap();
    let one = Tensor::ones([1, 1], DType::F32).unwrap();
    no_memory("repeat", extensor::ops::repeat(&x, [1i64 << 40], 0));
    no_memory("repeat", extensor::ops::repeat(&x, [1, 1i64 << 40, 1], 0));
    no_memory("repeat", extensor::ops::repeat(&x, [1i64 << 61], 0));
    no_memory("split", extensor::ops::split(&view([HUGE], DType::F32), HUGE, 0));
    no_memory("split", extensor::ops::split(&view([1 << 32], DType::F32), 1usize << 32, 0));
    no_memory("stack_backward", extensor::ops::stack_backward(&view([HUGE, 1], DType::F32), 0));
    no_memory("tile", extensor::ops::tile(&x, [1i64 << 40]));
    no_memory("pad", extensor::ops::pad(&x, [(1 << 40, 0)], 0.0));
    no_memory("one_hot", extensor::ops::one_hot(&tensor([1i64, 2]), 1 << 40, DType::F32));
    no_memory("zeros", Tensor::zeros([1 << 60], DType::F32));
    no_memory("zeros", Tensor::zeros([usize::MAX, usize::MAX], DType::F32));
    no_memory("ones", Tensor::ones([HUGE], DType::F32));
    no_memory("arange", Tensor::arange(0.0, 1e12, 1.0, DType::F32));
    no_memory("linspace", Tensor::linspace(0.0, 1.0, HUGE, DType::F64));
    no_memory("eye", Tensor::eye(1 << 20, 1 << 20, DType::F64));
    no_memory("copied", view([HUGE], DType::F32).copied());
    no_memory("to_vec", view([HUGE], DType::F32).to_vec::<f32>());
    no_memory("copied", view([HUGE], DType::F32).to_bytes());
    no_memory("add", extensor::ops::add(&view([HUGE], DType::F32), &x.clone().item_one()));
    no_memory("argsort", extensor::ops::argsort(&view([HUGE], DType::F32), 0, Order::Ascending));
    no_memory("argsort", extensor::ops::unique(&view([HUGE], DType::F32)));
    no_memory("not_equal", extensor::ops::nonzero(&view([HUGE], DType::F32)));
    no_memory("cumsum", extensor::ops::cumsum(&view([HUGE], DType::F32), 0));
    no_memory("normal", extensor::Key::new(0).normal([HUGE], DType::F32));
    no_memory("integers", extensor::Key::new(0).integers([HUGE], 5));
    // The result is small or empty; what is on the way to it is not.
    no_memory("sum", extensor::ops::sum(&view([1 << 58], DType::F32), ..));
    no_memory("max_reduce", extensor::ops::max_reduce(&view([1 << 57], DType::F64), ..));
    no_memory("matmul", extensor::ops::matmul(&view([HUGE, 1, 1], DType::F32), &one));
    let wide = view([1 << 20], DType::F32);
    no_memory("jacobian", jacobian_reverse(|x| Ok(x.clone()), &wide));
    no_memory("jacobian", jacobian_forward(|x| Ok(x.clone()), &wide));
    no_memory("jacobian", jacobian(|x| extensor::ops::multiply(x, x), &wide));
}

trait One {
    fn item_one(self) -> Tensor;
}

impl One for Tensor {
    fn item_one(self) -> Tensor {
        extensor::ops::slice(&self, 0, 0, 1, 1).unwrap()
    }
}

#[test]
fn what_is_empty_takes_no_memory_however_often_it_is_repeated() {
    let none = Tensor::ones([2, 0], DType::F32).unwrap();
    let often = extensor::ops::repeat(&none, [1i64 << 40], 0).unwrap();
    assert_eq!(often.shape(), [1 << 41, 0]);
    let back = extensor::ops::repeat_backward(&often, &[2, 0], [1i64 << 40], 0).unwrap();
    assert_eq!(back.shape(), [2, 0]);
    let (a, b) = (view([HUGE, 0, 3], DType::F32), view([HUGE, 3, 0], DType::F32));
    assert_eq!(extensor::ops::matmul(&a, &b).unwrap().shape(), [HUGE, 0, 0]);
}

/// Ends `f` after a tenth of a second, and says how long it then went on.
fn interrupted<T>(f: impl FnOnce() -> Result<T>) -> (Result<&'static str>, Duration) {
    let (started, before) = (Instant::now(), Duration::from_millis(100));
    let stop = || started.elapsed() > before;
    let result = interrupt::watch(&stop, f).map(|_| "a result");
    (result, started.elapsed().saturating_sub(before))
}

#[test]
fn long_work_ends_within_a_second_on_any_number_of_threads() {
    let x = view([1 << 37], DType::F32);
    let flat = view([1 << 35, 4], DType::F32);
    let mixed = view([1 << 19, 1 << 18], DType::BF16);
    let halves = view([1 << 18, 1 << 18], DType::F64);
    let square = Tensor::ones([1 << 12, 1 << 12], DType::F32).unwrap();
    let one = Tensor::ones([1], DType::F32).unwrap();
    // Forward it is a view; backward it is a sum.
    let (_, pullback) =
        vjp(|x: &Tensor| extensor::ops::broadcast_to(x, [1usize << 37]), &one).unwrap();
    type Work<'a> = Box<dyn Fn() -> Result<Tensor> + 'a>;
    let all: Vec<(&str, Work)> = vec![
        ("sum", Box::new(|| extensor::ops::sum(&x, ..))),
        ("sum of rows", Box::new(|| extensor::ops::sum(&flat, [0]))),
        ("mean", Box::new(|| extensor::ops::mean(&mixed, ..))),
        ("prod", Box::new(|| extensor::ops::prod(&halves, ..))),
        ("max", Box::new(|| extensor::ops::max_reduce(&x, ..))),
        ("argmax", Box::new(|| extensor::ops::argmax(&flat, 0))),
        ("variance", Box::new(|| extensor::ops::variance(&x, .., 0))),
        ("norm", Box::new(|| extensor::ops::norm(&halves, ..))),
        ("logsumexp", Box::new(|| extensor::ops::logsumexp(&x, ..))),
        ("any", Box::new(|| extensor::ops::all(&view([1 << 37], DType::Bool), ..))),
        ("dot", Box::new(|| extensor::ops::dot(&x, &x))),
        (
            "matmul",
            Box::new(|| {
                extensor::ops::matmul(
                    &view([1, 1 << 37], DType::F32),
                    &view([1 << 37, 1], DType::F32),
                )
            }),
        ),
        ("a square", Box::new(|| products(&square))),
        ("backward", Box::new(|| pullback.call(&x))),
        (
            "jacobian",
            Box::new(|| jacobian_reverse(|x| extensor::ops::sin(x), &view([30_000], DType::F32))),
        ),
        (
            "jacobian forward",
            Box::new(|| jacobian_forward(|x| extensor::ops::sin(x), &view([30_000], DType::F32))),
        ),
    ];
    for threads in [1, 2] {
        for (name, work) in &all {
            let run = || extensor::threads::with(threads, work);
            let (result, took) = interrupted(run);
            assert_eq!(result, Err(Error::Interrupted), "{name} on {threads} threads");
            assert!(took < Duration::from_secs(1), "{name} on {threads} threads: {took:?}");
        }
    }
}

fn products(x: &Tensor) -> Result<Tensor> {
    (0..200).try_fold(x.clone(), |y, _| extensor::ops::matmul(&y, x))
}

#[test]
fn after_an_interruption_everything_computes_as_before() {
    let (result, _) = interrupted(|| extensor::ops::sum(&view([1 << 40], DType::F32), ..));
    assert_eq!(result, Err(Error::Interrupted));
    let x = Tensor::arange(0.0, 1e6, 1.0, DType::F64).unwrap();
    let total = extensor::ops::sum(&x, ..).unwrap().item::<f64>().unwrap();
    assert_eq!(total, 1e6 * (1e6 - 1.0) / 2.0);
}

#[test]
fn a_padding_that_cannot_be_computed_with_is_named_whichever_axis_has_it() {
    let (x, weight) = (Tensor::ones([1, 1, 4, 4], DType::F32).unwrap(), [1, 1, 3, 3]);
    let weight = Tensor::ones(weight, DType::F32).unwrap();
    for padding in [[1usize << 62, 0], [0, 1 << 62]] {
        let made =
            extensor::ops::conv_transpose2d(&x, &weight, None, ConvOptions::new().padding(padding));
        let error = made.unwrap_err().to_string();
        assert!(error.contains("sizes that can be computed with"), "{padding:?}: {error}");
    }
    let made = extensor::ops::conv_transpose2d(&x, &weight, None, ConvOptions::new().padding(9));
    let error = made.unwrap_err().to_string();
    assert!(error.contains("padding leaves at least one element"), "{error}");
}
