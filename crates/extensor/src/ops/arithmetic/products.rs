//! Arithmetic on two broadcast tensors.
//!
//! A rule gives each operand's gradient in the broadcast shape; the engine sums it to the operand's.

use crate::exec::check::Check;
use crate::ops::calculus::{no_power_by_base, power_by_base, power_by_exponent};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, sum_dtype};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, guard, infer_binary, map_number, map_real, settle};
use crate::ops::record::{Family, Input, Record, signature};
use crate::ops::samples::{LARGE, PAIRS, Sample, Sampler};
use crate::{DType, Result, Tensor};
use extensor_kernels::map::{Formula, Formulas, NumberFormula, Numbers};
use extensor_kernels::number::{Number, Real};
use smallvec::smallvec;

/// Defines an operation of two tensors from its formula and its two gradients, functions of
/// `(grad_output, a, b)`.
macro_rules! binary {
    (
        $(#[$doc:meta])*
        $kind:ident $name:ident($a:ident, $b:ident), $backward:ident, $Op:ident:
            y = |$fa:ident, $fb:ident| $f:expr,
            da = |$g1:ident, $a1:ident, $b1:ident $(, $limit1:ident)?| $da:expr,
            db = |$g2:ident, $a2:ident, $b2:ident $(, $limit2:ident)?| $db:expr;
            $formula:literal, $derivative:literal;
            check $check:expr;
            $($field:ident: $setting:expr,)*
    ) => {
        $(#[$doc])*
        #[doc = crate::ops::source::edges!($($field: $setting,)*)]
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name($a: &Tensor, $b: &Tensor) -> Result<Tensor> {
            apply_one(&$Op, &[$a, $b])
        }

        #[doc = concat!("The gradients of [`", stringify!($name), "`]: `", $derivative, "`, each in its operand's shape.")]
        #[track_caller]
        #[extensor_derive::noted]
        pub fn $backward(grad_output: &Tensor, $a: &Tensor, $b: &Tensor) -> Result<(Tensor, Tensor)> {
            let output = placeholder(grad_output.shape(), grad_output.dtype())?;
            let [da, db] = backward_of(&$Op, grad_output, &[$a, $b], &output)?;
            Ok((da, db))
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op;

        binary!(@formula $kind $Op $fa $fb [$f]);

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Arithmetic,
                formula: $formula,
                derivative: $derivative,
                backward: signature!($backward(grad_output, $a, $b)),
                inputs: &[Input::new(stringify!($a)), Input::new(stringify!($b))],
                build: |_| Ok(Box::new($Op)),
                errors: bad_pairs,
                $($field: $setting,)*
                ..Record::BLANK
            };
        }

        const _: () = {
            #[derive(Clone)]
            struct First {
                #[allow(dead_code)]
                limit: f64,
            }
            #[derive(Clone)]
            struct Second {
                #[allow(dead_code)]
                limit: f64,
            }
            impl Formula<3> for First {
                #[inline(always)]
                fn f<R: Real>(&self, [$g1, $a1, $b1]: [R; 3]) -> R {
                    $(let $limit1 = self.limit;)?
                    $da
                }
            }
            impl Formula<3> for Second {
                #[inline(always)]
                fn f<R: Real>(&self, [$g2, $a2, $b2]: [R; 3]) -> R {
                    $(let $limit2 = self.limit;)?
                    $db
                }
            }
            impl Operation for $Op {
                fn record(&self) -> &'static Record {
                    $Op::RECORD
                }
                fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                    let inputs = [(stringify!($a), inputs[0]), (stringify!($b), inputs[1])];
                    infer_binary(stringify!($name), inputs, binary!(@takes $kind))
                }
                fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
                    let ([a, b], spec) = ([inputs[0], inputs[1]], specs.swap_remove(0));
                    let check: fn(&Tensor, &Tensor) -> Result<()> = $check;
                    check(a, b)?;
                    Ok(smallvec![binary!(@forward $kind stringify!($name), $Op, a, b, spec)?])
                }
                fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
                    let (g, a, b) = (call.grad(), call.inputs[0], call.inputs[1]);
                    let limit = g.dtype().max_finite();
                    let spec = |x: &Tensor| Spec { shape: g.shape().clone(), dtype: sum_dtype(g.dtype(), g.shape(), x.shape()) };
                    call.two(
                        || map_real(stringify!($backward), &Formulas(First { limit }), [g, a, b], spec(a)),
                        || map_real(stringify!($backward), &Formulas(Second { limit }), [g, a, b], spec(b)),
                    )
                }
            }
        };
    };
    (@formula number $Op:ident $a:ident $b:ident [$f:expr]) => {
        impl NumberFormula<2> for $Op {
            #[inline(always)]
            fn f<R: Number>(&self, [$a, $b]: [R; 2]) -> R {
                $f
            }
        }
    };
    (@formula real $Op:ident $a:ident $b:ident [$f:expr]) => {
        impl Formula<2> for $Op {
            #[inline(always)]
            fn f<R: Real>(&self, [$a, $b]: [R; 2]) -> R {
                $f
            }
        }
    };
    (@takes number) => { Takes::Numbers };
    (@takes real) => { Takes::Floats };
    (@forward number $op:expr, $Op:ident, $a:ident, $b:ident, $spec:ident) => { map_number($op, &Numbers($Op), [$a, $b], $spec) };
    (@forward real $op:expr, $Op:ident, $a:ident, $b:ident, $spec:ident) => { map_real($op, &Formulas($Op), [$a, $b], $spec) };
}

pub(super) use binary;

/// No further conditions.
pub(super) fn any(_: &Tensor, _: &Tensor) -> Result<()> {
    Ok(())
}

/// Whole numbers cannot be divided by zero.
pub(super) fn no_integer_zero(op: &'static str, b: &Tensor) -> Result<()> {
    if !b.dtype().is_int() {
        return Ok(());
    }
    Check::Divisors.on(op, b)
}

/// A sample of each pair of shapes.
pub(super) fn pairs(
    s: &mut Sampler,
    mut draw: impl FnMut(&mut Sampler, &[usize], &[usize]) -> [Tensor; 2],
) {
    for (a, b) in PAIRS {
        let inputs = draw(s, a, b);
        s.add(inputs, Params::new());
    }
    let inputs = draw(s, &[LARGE / 200, 200], &[200]);
    s.add_large(inputs, Params::new(), "many numbers");
}

/// Shapes that do not broadcast, masks, and a parameter that there is not.
pub(super) fn bad_pairs(bad: &mut crate::ops::samples::Bad) {
    let [a, b] = [[2, 3], [3, 2]].map(|shape| bad.ones(&shape, DType::F64));
    bad.add([a.clone(), b], Params::new(), "shapes [2, 3] and [3, 2] do not broadcast");
    let mask = bad.ones(&[2, 3], DType::Bool);
    bad.add([a.clone(), mask], Params::new(), "has dtype bool, expected");
    let five = Params::new().with("five", 5);
    bad.add([a.clone(), a], five, "has no parameter \"five\"");
}

/// A number away from 0, of either sign.
pub(super) fn divisor(s: &mut Sampler, shape: &[usize]) -> Tensor {
    let signs = s.away(-1.0, 1.0, &[0.0], shape).to_f64_vec();
    let sizes = s.uniform(0.4, 2.0, shape).to_f64_vec();
    let values = signs.iter().zip(sizes).map(|(sign, size)| size.copysign(*sign)).collect();
    Tensor::from_vec(values, shape)
        .unwrap_or_else(|error| panic!("a sample cannot be made: {error}"))
}

/// Whether a quotient is a whole number, or none.
fn at_a_step(sample: &Sample) -> bool {
    sample.meet([0, 1], |a, b| b == 0.0 || (a / b).fract() == 0.0)
}

/// Two numbers whose quotient is at least 0.05 away from a whole number.
pub(super) fn uneven(s: &mut Sampler, a: &[usize], b: &[usize]) -> [Tensor; 2] {
    // Whole divisors and fractions of ¼ to ¾: the quotient of any pair has a fraction.
    let whole = s.integers(2, b).to_f64_vec().iter().map(|v| v + 1.0).collect();
    let base = s.integers(6, a).to_f64_vec();
    let fractions = s.uniform(0.25, 0.75, a).to_f64_vec();
    let dividends = base.iter().zip(fractions).map(|(n, f)| n - 3.0 + f).collect();
    let made = |values: Vec<f64>, shape: &[usize]| {
        Tensor::from_vec(values, shape).unwrap_or_else(|e| panic!("a sample cannot be made: {e}"))
    };
    [made(dividends, a), made(whole, b)]
}

binary! {
    /// `a · b`, broadcast; whole numbers wrap around.
    ///
    /// ```
    /// let y = extensor::ops::multiply(&extensor::tensor([1.0, 2.0]), &extensor::tensor(3.0))?;
    /// assert_eq!(y.to_vec::<f64>()?, [3.0, 6.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    number multiply(a, b), multiply_backward, Multiply:
        y = |a, b| a * b,
        da = |g, _a, b| g * b,
        db = |g, a, _b| g * a;
        "y = a·b", "(g·b, g·a)";
        check any;
        samples: |s| pairs(s, |s, a, b| [s.normal(a), s.normal(b)]),
}

binary! {
    /// `a / b`, broadcast; for whole numbers see [`floor_divide`].
    ///
    /// ```
    /// let y = extensor::ops::divide(&extensor::tensor([1.0, 2.0]), &extensor::tensor(4.0))?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.25, 0.5]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    real divide(a, b), divide_backward, Divide:
        y = |a, b| a / b,
        da = |g, _a, b, limit| settle(g / guard(b), g, b.eq(b.lit(0.0)), limit),
        db = |g, a, b, limit| {
            let d = guard(b);
            settle(-(g.times(a / d) / d), g, b.eq(b.lit(0.0)) & a.is_finite(), limit)
        };
        "y = a/b", "(g/b, −g·a/b²)";
        check any;
        domain: "b ≠ 0",
        conventions: "where b is 0 the derivative uses ±1e-10, and stays finite",
        samples: |s| pairs(s, |s, a, b| [s.normal(a), divisor(s, b)]),
        kinks: |sample| sample.meet([0, 1], |_, b| b == 0.0),
}

binary! {
    /// `base` to the power `exponent`, broadcast, for any real exponent. Whole numbers take whole
    /// exponents that are not negative.
    ///
    /// ```
    /// let y = extensor::ops::power(&extensor::tensor([4.0, 9.0]), &extensor::tensor(0.5))?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.0, 3.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    number power(base, exponent), power_backward, Power:
        y = |x, n| x.pow(n),
        da = |g, x, n, limit| {
            settle(g.times(power_by_base(x, n)), g, no_power_by_base(x, n), limit)
        },
        db = |g, x, n| g.times(power_by_exponent(x, n));
        "y = xⁿ", "(g·n·xⁿ⁻¹, g·xⁿ·ln x)";
        check |base, exponent| {
            if !exponent.dtype().is_int() {
                return Ok(());
            }
            Check::Exponents { base: base.dtype() }.on("power", exponent)
        };
        domain: "x > 0, or x < 0 with whole n",
        conventions: "d/dbase of 0⁰ and 0¹ are 0 and 1, for n < 1 at 0 it uses ±1e-10 for x, and stays finite; d/dexponent is 0 for base 0 and for whole powers of negative numbers; NaN where y is",
        samples: |s| {
            pairs(s, |s, a, b| [s.uniform(0.3, 3.0, a), s.uniform(-2.5, 2.5, b)]);
            let zeros = crate::tensor([0.0, 0.0, 0.0, 0.0, 0.0]);
            let n = crate::tensor([0.0, 1.0, 2.0, 0.5, -1.0]);
            s.add_noted([zeros, n], Params::new(), "at zero");
            let negative = crate::tensor([-0.4, -1.5, -2.0, -1.0, -0.7]);
            let n = crate::tensor([2.0, 3.0, -1.0, -2.0, 0.0]);
            s.add_noted([negative, n], Params::new(), "whole powers of negative numbers");
        },
        // Beside whole powers of negative numbers there is nothing.
        kinks: |sample| sample.meet([0, 1], |x, _| x <= 0.0),
}

binary! {
    /// `⌊a/b⌋`, broadcast.
    ///
    /// ```
    /// let y = extensor::ops::floor_divide(&extensor::tensor([7, -7]), &extensor::tensor(2))?;
    /// assert_eq!(y.to_vec::<i32>()?, [3, -4]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    number floor_divide(a, b), floor_divide_backward, FloorDivide:
        y = |a, b| a.floor_divide(b),
        da = |g, a, b| a.floor_divide(b).nan_or(g.lit(0.0)),
        db = |g, a, b| a.floor_divide(b).nan_or(g.lit(0.0));
        "y = ⌊a/b⌋", "(0, 0)";
        check |_, b| no_integer_zero("floor_divide", b);
        domain: "b ≠ 0",
        conventions: "the derivative is 0 everywhere, at the steps too; whole numbers divided by 0 are an error",
        order: 1,
        samples: |s| pairs(s, uneven),
        kinks: at_a_step,
}

binary! {
    /// `a − b⌊a/b⌋`, broadcast: the remainder with the sign of the divisor.
    ///
    /// ```
    /// let y = extensor::ops::modulo(&extensor::tensor([7, -7]), &extensor::tensor(3))?;
    /// assert_eq!(y.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    number modulo(a, b), modulo_backward, Modulo:
        y = |a, b| a.modulo(b),
        da = |g, a, b| a.modulo(b).nan_or(g),
        db = |g, a, b| a.modulo(b).nan_or(-(g.times(a.floor_divide(b))));
        "y = a − b⌊a/b⌋", "(g, −g·⌊a/b⌋)";
        check |_, b| no_integer_zero("modulo", b);
        domain: "b ≠ 0",
        conventions: "NaN where y is; whole numbers divided by 0 are an error",
        order: 1,
        samples: |s| pairs(s, uneven),
        kinks: at_a_step,
}

binary! {
    /// The larger of `a` and `b`, broadcast; NaN if either is.
    ///
    /// ```
    /// let y = extensor::ops::maximum(&extensor::tensor([1, 5]), &extensor::tensor(3))?;
    /// assert_eq!(y.to_vec::<i32>()?, [3, 5]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    number maximum(a, b), maximum_backward, Maximum:
        y = |a, b| a.maximum(b),
        da = |g, a, b| share(g, b, a),
        db = |g, a, b| share(g, a, b);
        "y = max(a, b)", "g to the larger";
        check any;
        conventions: "a tie gives each side half; NaN gives NaN",
        samples: |s| {
            pairs(s, apart_pair);
            let [a, b] = [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]].map(crate::tensor);
            s.add_noted([a, b], Params::new(), "a tie is split in half");
        },
        kinks: |sample| sample.meet([0, 1], |a, b| a == b),
}

binary! {
    /// The smaller of `a` and `b`, broadcast; NaN if either is.
    ///
    /// ```
    /// let y = extensor::ops::minimum(&extensor::tensor([1, 5]), &extensor::tensor(3))?;
    /// assert_eq!(y.to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    number minimum(a, b), minimum_backward, Minimum:
        y = |a, b| a.minimum(b),
        da = |g, a, b| share(g, a, b),
        db = |g, a, b| share(g, b, a);
        "y = min(a, b)", "g to the smaller";
        check any;
        conventions: "a tie gives each side half; NaN gives NaN",
        samples: |s| {
            pairs(s, apart_pair);
            let [a, b] = [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]].map(crate::tensor);
            s.add_noted([a, b], Params::new(), "a tie is split in half");
        },
        kinks: |sample| sample.meet([0, 1], |a, b| a == b),
}

/// `g` where `low < high`, half of it where they are equal, none otherwise; NaN for NaN.
#[inline(always)]
fn share<R: Real>(g: R, low: R, high: R) -> R {
    let tied = R::select(low.eq(high), g * g.lit(0.5), g.lit(0.0));
    low.nan_or(high.nan_or(R::select(low.lt(high), g, tied)))
}

/// Two tensors no two elements of which are equal.
pub(super) fn apart_pair(s: &mut Sampler, a: &[usize], b: &[usize]) -> [Tensor; 2] {
    let (p, q): (usize, usize) = (a.iter().product(), b.iter().product());
    let both = s.apart(&[p + q]).to_f64_vec();
    let made = |values: &[f64], shape: &[usize]| {
        Tensor::from_slice(values, shape).unwrap_or_else(|e| panic!("a sample cannot be made: {e}"))
    };
    [made(&both[..p], a), made(&both[p..], b)]
}
