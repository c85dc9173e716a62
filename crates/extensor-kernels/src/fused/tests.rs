use super::fold::{Fold, Groups};
use super::{Fused, Sink, Source};
use crate::interpret::Machine;
use crate::map::{Formula, Formulas, map};
use crate::number::{Number, Real};
use crate::par::with_threads;
use crate::program::Bundle;
use crate::reduce::{self, Floats};
use crate::symbol::Symbol;
use crate::view::View;
use half::bf16;

/// `tanh(a·b + c)`, a row-major array, its row and one number.
#[derive(Clone)]
struct Layer;

impl Formula<3> for Layer {
    #[inline(always)]
    fn f<R: Real>(&self, [a, b, c]: [R; 3]) -> R {
        (a * b + c).tanh()
    }
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 % 1009) as f32 - 500.0) * 0.004).collect()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// The formula and its square, which is there twice.
fn bundle() -> Bundle {
    Bundle::record(3, |x| {
        let y = (x[0] * x[1] + x[2]).tanh();
        vec![y, y * y, y]
    })
}

#[test]
fn a_fused_map_has_the_bits_of_its_formulas_one_by_one_for_any_size_and_threads() {
    for [rows, columns] in [[1, 1], [1, 16], [3, 5], [7, 700], [40, 1000], [3, 1_000_000]] {
        let shape = [rows, columns];
        let (a, b, c) = (numbers(rows * columns), numbers(columns), [0.25f32]);
        let steps = [columns as isize, 1];
        let views = [
            View::new(&a, 0, &shape, &steps),
            View::new(&b, 0, &shape, &[0, 1]),
            View::new(&c, 0, &shape, &[0, 0]),
        ];
        let mut want = vec![0.0; a.len()];
        map::<f32, f32, 3>(&Formulas(Layer), views, &mut want);
        let square: Vec<f32> = want.iter().map(|y| y * y).collect();
        for threads in [1, 3] {
            let mut out = [(); 3].map(|()| vec![f32::NAN; a.len()]);
            let mut sinks = out.each_mut().map(|x| Sink::F32(x.as_mut_slice()));
            with_threads(threads, || {
                Fused::<f32>::new(&bundle()).run(&views.map(Source::F32), &mut sinks)
            });
            assert_eq!(bits(&out[0]), bits(&want), "{shape:?}");
            assert_eq!(bits(&out[1]), bits(&square), "{shape:?}");
            assert_eq!(bits(&out[2]), bits(&want), "{shape:?}");
        }
    }
}

#[test]
fn results_may_be_variables_and_constants() {
    let bundle = Bundle::record(1, |x| {
        let two = x[0].lit(1.0) + x[0].lit(1.0);
        vec![x[0], two, two * two * x[0]]
    });
    let x = numbers(1500);
    let view = View::new(&x, 0, &[1500], &[1]);
    let mut out = [(); 3].map(|()| vec![f32::NAN; x.len()]);
    let mut sinks = out.each_mut().map(|x| Sink::F32(x.as_mut_slice()));
    Fused::<f32>::new(&bundle).run(&[Source::F32(view)], &mut sinks);
    assert_eq!(bits(&out[0]), bits(&x));
    assert!(out[1].iter().all(|&y| y == 2.0));
    assert!(out[2].iter().zip(&x).all(|(&y, &x)| y == 4.0 * x));
}

#[test]
fn masks_and_16_bits_go_in_and_out() {
    let bundle = Bundle::record(2, |x| vec![Symbol::select(x[0].answer(), x[1], -x[1]), x[0]]);
    let mask: Vec<u8> = (0..3000).map(|i| u8::from(i % 3 == 0)).collect();
    let x: Vec<bf16> = numbers(3000).into_iter().map(bf16::from_f32).collect();
    let sources = [
        Source::Mask(View::new(&mask, 0, &[3000], &[1])),
        Source::BF16(View::new(&x, 0, &[3000], &[1])),
    ];
    let (mut y, mut same) = (vec![bf16::NAN; 3000], vec![9; 3000]);
    let mut sinks = [Sink::BF16(&mut y), Sink::Mask(&mut same)];
    Fused::<f32>::new(&bundle).run(&sources, &mut sinks);
    assert_eq!(same, mask);
    assert!((0..3000).all(|i| y[i] == if mask[i] != 0 { x[i] } else { -x[i] }));
}

/// Shapes and what is folded of each: rows, columns, planes, and axes between kept ones.
const CASES: [(&[usize], &[bool]); 16] = [
    (&[1], &[true]),
    (&[16], &[true]),
    (&[300], &[true]),
    (&[20_000], &[true]),
    (&[700_000], &[true]),
    (&[90, 7], &[false, true]),
    (&[90, 7], &[true, false]),
    (&[5, 9000], &[false, true]),
    (&[9000, 5], &[true, false]),
    (&[9000, 1], &[true, false]),
    (&[33, 700], &[true, false]),
    (&[4100, 260], &[true, false]),
    (&[300, 3000], &[true, false]),
    (&[3, 50, 70], &[false, true, false]),
    (&[17, 3, 29, 31], &[true, false, true, true]),
    (&[2, 8, 3, 600], &[false, true, false, true]),
];

/// A type that arrays are made of.
trait Element: Floats + PartialEq {
    fn of(x: f32) -> Self;
    fn source(x: View<'_, Self>) -> Source<'_>;
    fn sink(x: &mut [Self]) -> Sink<'_>;
}

macro_rules! elements {
    ($($t:ty, $name:ident, $x:ident => $of:expr;)*) => {$(
        impl Element for $t {
            fn of($x: f32) -> Self {
                $of
            }
            fn source(x: View<'_, Self>) -> Source<'_> {
                Source::$name(x)
            }
            fn sink(x: &mut [Self]) -> Sink<'_> {
                Sink::$name(x)
            }
        }
    )*};
}
elements! {
    f32, F32, x => x;
    f64, F64, x => f64::from(x);
    bf16, BF16, x => bf16::from_f32(x);
}

fn folded<T: Element, W: Machine>() {
    for (shape, reduced) in CASES {
        let len: usize = shape.iter().product();
        let groups = Groups::new(shape, reduced).unwrap();
        let results = groups.sizes[0] * groups.sizes[2];
        let x: Vec<T> = numbers(len).into_iter().map(T::of).collect();
        let mut strides = vec![0; shape.len()];
        let mut step = 1;
        for (stride, size) in strides.iter_mut().zip(shape).rev() {
            *stride = step as isize;
            step *= size;
        }
        let x = View::new(&x, 0, shape, &strides);
        // Minus itself, exactly.
        let bundle = Bundle::record(1, |x| vec![-x[0]; 5]);
        let negated: Vec<T> = numbers(len).into_iter().map(|x| T::of(-x)).collect();
        let y = View::new(&negated, 0, shape, &strides);
        let count = len / results;
        let mut want = [(); 4].map(|()| vec![T::ZERO; results]);
        reduce::float_sum(y, reduced, &mut want[0]);
        reduce::mean(y, reduced, &mut want[1]);
        reduce::maximum(y, reduced, &mut want[2]);
        reduce::minimum(y, reduced, &mut want[3]);
        let folds = [
            Fold::Sum { divisor: 1.0 },
            Fold::Sum { divisor: count as f64 },
            Fold::Largest,
            Fold::Smallest,
            Fold::Each,
        ];
        for threads in [1, 3] {
            let mut got = [(); 4].map(|()| vec![T::ZERO; results]);
            let mut each = vec![T::ZERO; len];
            let [a, b, c, d] = &mut got;
            let mut sinks = [a, b, c, d, &mut each].map(|x| T::sink(x));
            with_threads(threads, || {
                let fused = Fused::<W>::new(&bundle);
                fused.run_folded(&[T::source(x)], &mut sinks, &folds, &groups)
            });
            assert!(got == want, "{shape:?} over {reduced:?} on {threads} threads");
            assert!(each == negated, "{shape:?} over {reduced:?} on {threads} threads");
        }
    }
}

#[test]
fn what_is_folded_as_it_is_made_has_the_bits_of_the_fold_of_an_array() {
    folded::<f32, f32>();
    folded::<bf16, f32>();
    folded::<f64, f64>();
}

#[test]
fn a_fused_sum_of_f64_leaves_the_range_only_if_it_is_beyond() {
    let x = [1.5e308, 1.5e308, -1.5e308, -1.5e308, 1e308, f64::INFINITY, 1.0, 2.0, 3.0, 4.0];
    let view = View::new(&x, 0, &[2, 5], &[5, 1]);
    let bundle = Bundle::record(1, |x| vec![-x[0]]);
    let groups = Groups::new(&[2, 5], &[false, true]).unwrap();
    let (mut got, mut want) = ([0.0; 2], [0.0; 2]);
    let negated = x.map(|x| -x);
    reduce::mean(View::new(&negated, 0, &[2, 5], &[5, 1]), &[false, true], &mut want);
    let folds = [Fold::Sum { divisor: 5.0 }];
    let mut sinks = [Sink::F64(&mut got)];
    Fused::<f64>::new(&bundle).run_folded(&[Source::F64(view)], &mut sinks, &folds, &groups);
    assert_eq!(got.map(f64::to_bits), want.map(f64::to_bits));
    assert!(got[0].is_finite());
}

#[test]
fn axes_that_alternate_too_often_are_not_folded() {
    assert_eq!(Groups::new(&[2, 1, 3], &[true, false, true]).unwrap().sizes, [1, 1, 1, 6]);
    assert_eq!(Groups::new(&[2, 5, 3], &[true, false, true]).unwrap().sizes, [1, 2, 5, 3]);
    let alternating = Groups::new(&[2, 3, 4, 5, 6], &[true, false, true, false, true]);
    assert!(alternating.is_none());
}
