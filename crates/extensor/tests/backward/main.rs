//! Every public backward function, called by itself, gives what differentiating its function gives.
//! (The rules behind them are checked elsewhere; here it is their arguments.)

use extensor::autodiff::vjp;
use extensor::ops::catalogue;
use extensor::*;
use std::collections::BTreeSet;

/// The functions tried so far.
#[derive(Default)]
struct Tried(BTreeSet<String>);

/// Random numbers in an interval.
fn random(seed: u64, shape: &[usize], low: f64, high: f64) -> Tensor {
    Key::new(seed).uniform(shape, low, high, DType::F64).unwrap()
}

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    random(seed, shape, -1.5, 1.5)
}

impl Tried {
    /// Compares what `back` makes of a gradient of the result, and the result, with reverse mode's
    /// gradients of `f`.
    #[track_caller]
    fn compare(
        &mut self,
        name: &str,
        x: &[Tensor],
        f: impl Fn(&Vec<Tensor>) -> Result<Tensor>,
        back: impl FnOnce(&Tensor, &Tensor) -> Result<Vec<Tensor>>,
    ) {
        let (y, pull) = vjp(f, &x.to_vec()).unwrap();
        let g = normal(99, y.shape());
        let want = pull.call(&g).unwrap();
        let got = back(&g, &y).unwrap();
        assert_eq!(got.len(), want.len(), "{name}");
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got.shape(), x[i].shape(), "{name}, gradient {i}");
            assert_eq!(got.to_f64_vec(), want.to_f64_vec(), "{name}, gradient {i}");
        }
        self.0.insert(format!("{name}_backward"));
    }
}

macro_rules! of_one {
    ($tried:ident, [$low:literal, $high:literal], from $from:ident: $($f:ident $back:ident),* $(,)?) => {$({
        let x = random(1, &[2, 3], $low, $high);
        let f = |x: &Vec<Tensor>| $f(&x[0]);
        $tried.compare(stringify!($f), std::slice::from_ref(&x), f, |g, y| {
            let from = of_one!(@$from x y);
            Ok(vec![$back(g, from)?])
        });
    })*};
    (@x $x:ident $y:ident) => {{ let _ = $y; &$x }};
    (@output $x:ident $y:ident) => { $y };
}

macro_rules! of_two {
    ($tried:ident: $($f:ident $back:ident),* $(,)?) => {$({
        let (a, b) = (random(1, &[2, 3], 0.3, 2.5), random(2, &[3], 0.4, 1.6));
        let f = |x: &Vec<Tensor>| $f(&x[0], &x[1]);
        $tried.compare(stringify!($f), &[a.clone(), b.clone()], f, |g, _| {
            let (da, db) = $back(g, &a, &b)?;
            Ok(vec![da, db])
        });
    })*};
}

mod elements;
mod layers;
mod products;
mod shapes;

use elements::{elements, reductions};
use layers::{losses, norms, windows};
use products::{decompositions, products};
use shapes::shapes;

#[test]
fn every_backward_function_gives_the_gradients_of_its_function() {
    let mut tried = Tried::default();
    for some in [elements, reductions, shapes, products, decompositions, windows, norms, losses] {
        some(&mut tried);
    }
    let all = catalogue::CATALOGUE.iter().filter_map(|record| record.backward);
    let all: BTreeSet<String> = all.map(|signature| signature.name.to_string()).collect();
    assert_eq!(tried.0, all);
}
