//! Arithmetic on three broadcast tensors in one step: what is between two, a product or a quotient added.
//!
//! As in `products.rs`, a rule knows nothing of broadcasting.

use super::products::divisor;
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec, sum_dtype};
use crate::ops::params::{Params, expect_finite};
use crate::ops::pointwise::{Takes, guard, infer_binary, map_real, settle};
use crate::ops::record::{Family, Input, Parameter, Record, signature};
use crate::ops::samples::{Bad, LARGE, Sampler};
use crate::tensor::broadcast;
use crate::{DType, Error, Result, Tensor};
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;
use smallvec::smallvec;

/// Defines an operation of three tensors, and perhaps a factor `value`, from its formula and its three
/// gradients.
macro_rules! ternary {
    (
        $(#[$doc:meta])*
        $name:ident($a:ident, $b:ident, $c:ident $(; $value:ident)?), $backward:ident, $Op:ident:
            y = |$fa:ident, $fb:ident, $fc:ident| $f:expr,
            by = |$g:ident, $limit:ident| [$da:expr, $db:expr, $dc:expr];
            $formula:literal, $derivative:literal;
            $($field:ident: $setting:expr,)*
    ) => {
        $(#[$doc])*
        #[doc = crate::ops::source::edges!($($field: $setting,)*)]
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name($a: &Tensor, $b: &Tensor, $c: &Tensor $(, $value: f64)?) -> Result<Tensor> {
            apply_one(&$Op { $($value)? }, &[$a, $b, $c])
        }

        #[doc = concat!("The gradients of [`", stringify!($name), "`]: `", $derivative, "`, each in its operand's shape.")]
        #[track_caller]
        #[extensor_derive::noted]
        pub fn $backward(
            grad_output: &Tensor,
            $a: &Tensor,
            $b: &Tensor,
            $c: &Tensor
            $(, $value: f64)?
        ) -> Result<(Tensor, Tensor, Tensor)> {
            let output = placeholder(grad_output.shape(), grad_output.dtype())?;
            let op = $Op { $($value)? };
            let [da, db, dc] = backward_of(&op, grad_output, &[$a, $b, $c], &output)?;
            Ok((da, db, dc))
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op {
            $($value: f64,)?
        }

        impl Formula<3> for $Op {
            #[inline(always)]
            fn f<R: Real>(&self, [$fa, $fb, $fc]: [R; 3]) -> R {
                $(let $value = $fa.lit(self.$value);)?
                $f
            }
        }

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Arithmetic,
                formula: $formula,
                derivative: $derivative,
                backward: signature!($backward(grad_output, $a, $b, $c; $($value)?)),
                inputs: &[Input::new(stringify!($a)), Input::new(stringify!($b)), Input::new(stringify!($c))],
                params: &[$(Parameter {
                    name: stringify!($value),
                    what: "what it is multiplied by before it is added",
                    default: Some("1.0"),
                },)?],
                build: |_params| {
                    $(let $value = _params.float(stringify!($name), "value", 1.0)?;)?
                    Ok(Box::new($Op { $($value)? }))
                },
                errors: |bad| {
                    bad_triples(bad);
                    $(
                        let (x, nan) = (bad.ones(&[2], DType::F64), Params::new().with(stringify!($value), f64::NAN));
                        bad.add([x.clone(), x.clone(), x], nan, "value is NaN, expected a finite number");
                    )?
                },
                $($field: $setting,)*
                ..Record::BLANK
            };
        }

        const _: () = {
            #[derive(Clone)]
            struct By<const WHICH: usize> {
                #[allow(dead_code)]
                op: $Op,
                #[allow(dead_code)]
                limit: f64,
            }
            impl<const WHICH: usize> Formula<4> for By<WHICH> {
                #[inline(always)]
                #[allow(unused_variables)]
                fn f<R: Real>(&self, [$g, $fa, $fb, $fc]: [R; 4]) -> R {
                    let $limit = self.limit;
                    $(let $value = $fa.lit(self.op.$value);)?
                    match WHICH {
                        0 => $da,
                        1 => $db,
                        _ => $dc,
                    }
                }
            }
            impl Operation for $Op {
                fn record(&self) -> &'static Record {
                    $Op::RECORD
                }
                fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                    let names = [stringify!($a), stringify!($b), stringify!($c)];
                    let specs = infer_triple(stringify!($name), names, inputs)?;
                    $(expect_finite(stringify!($name), stringify!($value), self.$value, specs[0].dtype)?;)?
                    Ok(specs)
                }
                fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
                    let inputs = [inputs[0], inputs[1], inputs[2]];
                    Ok(smallvec![map_real(stringify!($name), &Formulas(*self), inputs, specs.swap_remove(0))?])
                }
                fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
                    let (g, limit, op) = (call.grad(), call.grad().dtype().max_finite(), *self);
                    let all = [g, call.inputs[0], call.inputs[1], call.inputs[2]];
                    let spec = |x: &Tensor| {
                        let dtype = sum_dtype(g.dtype(), g.shape(), x.shape());
                        Spec { shape: g.shape().clone(), dtype }
                    };
                    let name = stringify!($backward);
                    let by = |which: usize| {
                        let spec = spec(all[which + 1]);
                        match which {
                            0 => map_real(name, &Formulas(By::<0> { op, limit }), all, spec),
                            1 => map_real(name, &Formulas(By::<1> { op, limit }), all, spec),
                            _ => map_real(name, &Formulas(By::<2> { op, limit }), all, spec),
                        }
                    };
                    (0..3).map(|i| call.wanted[i].then(|| by(i)).transpose()).collect()
                }
            }
        };
    };
}

/// The result of a function of three broadcast tensors of floats: their common dtype.
fn infer_triple(op: &'static str, names: [&'static str; 3], inputs: &[&Tensor]) -> Result<Specs> {
    let [a, b, c] = [0, 1, 2].map(|i| (names[i], inputs[i]));
    let both = infer_binary(op, [a, b], Takes::Floats)?;
    c.1.dtype().expect_float(op, c.0)?;
    let (first, third) = (both[0].dtype, c.1.dtype());
    let mixed = Error::MixedDTypes { op, a: first, b: third };
    let dtype = first.promote(third).ok_or(mixed)?;
    Ok(spec(broadcast(op, &both[0].shape, c.1.shape())?, dtype))
}

/// Shapes that broadcast.
const TRIPLES: [[&[usize]; 3]; 8] = [
    [&[], &[], &[]],
    [&[5], &[5], &[5]],
    [&[3, 4], &[3, 4], &[]],
    [&[3, 4], &[4], &[3, 1]],
    [&[4], &[3, 1], &[2, 1, 1]],
    [&[], &[2, 3], &[3]],
    [&[0, 3], &[3], &[]],
    [&[1], &[1, 1], &[1]],
];

/// A sample of each triple of shapes.
fn triples(
    s: &mut Sampler,
    params: &[Params],
    draw: impl Fn(&mut Sampler, [&[usize]; 3]) -> [Tensor; 3],
) {
    for (i, shapes) in TRIPLES.into_iter().enumerate() {
        let inputs = draw(s, shapes);
        s.add(inputs, params[i % params.len()].clone());
    }
    let inputs = draw(s, [&[LARGE / 200, 200], &[200], &[LARGE / 200, 1]]);
    s.add_large(inputs, params[0].clone(), "many numbers");
}

/// Shapes that do not broadcast, masks, whole numbers.
fn bad_triples(bad: &mut Bad) {
    let [a, b] = [[2, 3], [3, 2]].map(|shape| bad.ones(&shape, DType::F64));
    let message = "shapes [2, 3] and [3, 2] do not broadcast";
    bad.add([a.clone(), b.clone(), a.clone()], Params::new(), message);
    bad.add([a.clone(), a.clone(), b], Params::new(), message);
    let whole = bad.ones(&[2, 3], DType::I64);
    let message = "has dtype i64, expected a float type";
    bad.add([a.clone(), a.clone(), whole.clone()], Params::new(), message);
    bad.add([whole, a.clone(), a.clone()], Params::new(), message);
    let mask = bad.ones(&[2, 3], DType::Bool);
    bad.add([a.clone(), mask, a.clone()], Params::new(), "has dtype bool, expected a float type");
    bad.add([a.clone(), a], Params::new(), "got inputs (2 tensors)");
}

/// The factors that are tried.
fn factors() -> [Params; 3] {
    [Params::new().with("value", -0.7), Params::new(), Params::new().with("value", 0.0)]
}

ternary! {
    /// What lies between `a` and `b`, `(1 − w)·a + w·b`, broadcast: exactly `a` for a weight of 0, and
    /// exactly `b` for 1. Weights below 0 and above 1 go beyond.
    ///
    /// ```
    /// use extensor::{ops::lerp, tensor};
    /// let y = lerp(&tensor([0.0, 0.1]), &tensor([4.0, 0.3]), &tensor([0.25, 1.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 0.3]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    lerp(a, b, weight), lerp_backward, Lerp:
        y = |a, b, w| {
            // Rounded twice, and not at all where one of them has no share.
            let between = w.mul_add(b, (-w).mul_add(a, a));
            R::select(a.eq(b) & w.is_finite(), a, between)
        },
        by = |g, limit| [g.times(w.lit(1.0) - w), g.times(w), g.times(b - a)];
        "y = (1 − w)·a + w·b", "(g·(1 − w), g·w, g·(b − a))";
        conventions: "exactly a for w = 0, b for w = 1, and a where both are equal",
        samples: |s| {
            triples(s, &[Params::new()], |s, [a, b, w]| [s.normal(a), s.normal(b), s.uniform(-0.5, 1.5, w)]);
            let inputs = [[0.1, -3.0, 0.7], [0.3, 1e-9, 0.7], [1.0, 0.0, 0.3]].map(crate::tensor);
            s.add_noted(inputs, Params::new(), "at the ends");
        },
}

ternary! {
    /// `x + value·a·b`, broadcast. For a `value` of 1 it is rounded once.
    ///
    /// ```
    /// use extensor::{ops::addcmul, tensor};
    /// let y = addcmul(&tensor([1.0, 2.0]), &tensor([3.0, 4.0]), &tensor(10.0), 0.5)?;
    /// assert_eq!(y.to_vec::<f64>()?, [16.0, 22.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    addcmul(x, a, b; value), addcmul_backward, AddCMul:
        y = |x, a, b| (value * a).mul_add(b, x),
        by = |g, limit| [g, g.times(value * b), g.times(value * a)];
        "y = x + value·a·b", "(g, g·value·b, g·value·a)";
        samples: |s| {
            triples(s, &factors(), |s, shapes| shapes.map(|shape| s.normal(shape)));
        },
}

ternary! {
    /// `x + value·a/b`, broadcast.
    ///
    /// ```
    /// use extensor::{ops::addcdiv, tensor};
    /// let y = addcdiv(&tensor([1.0, 2.0]), &tensor([3.0, 4.0]), &tensor(10.0), 5.0)?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.5, 4.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    addcdiv(x, a, b; value), addcdiv_backward, AddCDiv:
        y = |x, a, b| x + value * a / b,
        by = |g, limit| [
            g,
            settle(g * value / guard(b), g, b.eq(b.lit(0.0)), limit),
            {
                let d = guard(b);
                let pull = -((g * value).times(a / d) / d);
                settle(pull, g, b.eq(b.lit(0.0)) & a.is_finite(), limit)
            }
        ];
        "y = x + value·a/b", "(g, g·value/b, −g·value·a/b²)";
        domain: "b ≠ 0",
        conventions: "where b is 0 the derivative uses ±1e-10, and stays finite",
        samples: |s| {
            triples(s, &factors(), |s, [x, a, b]| [s.normal(x), s.normal(a), divisor(s, b)]);
        },
        kinks: |sample| [0, 1].into_iter().all(|i| sample.meet([i, 2], |_, b| b == 0.0)),
}
