//! Questions about numbers, answered by masks: what is finite, what is larger, and logic on masks.

use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs, apply_one};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, infer_binary, infer_unary, map_mask, map_real_mask};
use crate::ops::record::{Class, Family, Input, Needs, Record};
use crate::ops::samples::{PAIRS, SHAPES};
use crate::{DType, Result, Tensor};
use extensor_kernels::map::{Predicate, Predicates, RealPredicate};
use extensor_kernels::number::{Number, Real};
use smallvec::smallvec;

/// Defines a question about each element. Whole numbers are always finite.
macro_rules! question {
    ($(#[$doc:meta])* $name:ident, $Op:ident: |$x:ident| $f:expr, $test:literal, $formula:literal, int $int:literal) => {
        $(#[$doc])*
        ///
        /// ```
        #[doc = concat!("let x = extensor::tensor([1.0, f64::INFINITY, f64::NAN]);")]
        #[doc = concat!("let y = x.", stringify!($name), "()?;")]
        #[doc = concat!("assert_eq!(y.to_vec::<bool>()?, [1.0, f64::INFINITY, f64::NAN].map(|v: f64| ", $test, "));")]
        /// # Ok::<(), extensor::Error>(())
        /// ```
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(x: &Tensor) -> Result<Tensor> {
            apply_one(&$Op, &[x])
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op;

        impl RealPredicate for $Op {
            #[inline(always)]
            fn f<R: Real>(&self, $x: R) -> R::Mask {
                $f
            }
        }

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                formula: $formula,
                derivative: "none: the result is a mask",
                class: Class::Constant,
                order: 0,
                needs: Needs::Shapes,
                inputs: &[Input::constant("x")],
                build: |_| Ok(Box::new($Op)),
                samples: |s| {
                    for shape in SHAPES {
                        let x = s.normal(shape);
                        s.add([x], Params::new());
                    }
                    let x = crate::tensor([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]);
                    s.add_noted([x], Params::new(), "not finite");
                },
                errors: |bad| {
                    let mask = bad.ones(&[2], DType::Bool);
                    bad.add([mask], Params::new(), "x has dtype bool, expected a number type");
                },
                ..Record::BLANK
            };
        }

        impl Operation for $Op {
            fn record(&self) -> &'static Record {
                $Op::RECORD
            }
            fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                let mut specs = infer_unary(stringify!($name), inputs[0], Takes::Numbers)?;
                specs[0].dtype = DType::Bool;
                Ok(specs)
            }
            fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
                let x = inputs[0];
                if x.dtype().is_int() {
                    return Ok(smallvec![Tensor::full(x.shape().clone(), $int, DType::Bool)?]);
                }
                Ok(smallvec![map_real_mask(stringify!($name), $Op, x)?])
            }
            fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
                Ok(smallvec![None; call.inputs.len()])
            }
            fn batch(&self, call: &Batch<'_>) -> Batched {
                call.aligned(Box::new(*self))
            }
        }
    };
}

question! {
    /// Whether each element is not a number.
    isnan, IsNan: |x| x.is_nan(), "v.is_nan()", "y = whether x is NaN", int 0.0
}
question! {
    /// Whether each element is infinite.
    isinf, IsInf: |x| x.abs().eq(x.lit(f64::INFINITY)), "v.is_infinite()", "y = whether x is ∞ or −∞", int 0.0
}
question! {
    /// Whether each element is neither infinite nor NaN.
    isfinite, IsFinite: |x| x.is_finite(), "v.is_finite()", "y = whether x is neither infinite nor NaN", int 1.0
}

/// Defines a comparison of two broadcast tensors.
macro_rules! comparison {
    ($(#[$doc:meta])* $name:ident, $Op:ident: |$a:ident, $b:ident| $f:expr, $symbol:literal) => {
        $(#[$doc])*
        ///
        /// ```
        #[doc = concat!("let y = extensor::tensor([1, 2, 3]).", stringify!($name), "(&extensor::tensor(2))?;")]
        #[doc = concat!("assert_eq!(y.to_vec::<bool>()?, [1 ", $symbol, " 2, 2 ", $symbol, " 2, 3 ", $symbol, " 2]);")]
        /// # Ok::<(), extensor::Error>(())
        /// ```
        ///
        /// Conventions: a comparison with NaN is false, except that NaN is not equal to anything.
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            apply_one(&$Op, &[a, b])
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op;

        impl Predicate<2> for $Op {
            #[inline(always)]
            fn f<R: Number>(&self, [$a, $b]: [R; 2]) -> R::Mask {
                $f
            }
        }

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Arithmetic,
                formula: concat!("y = a ", $symbol, " b"),
                derivative: "none: the result is a mask",
                conventions: "a comparison with NaN is false, except that NaN is not equal to anything",
                class: Class::Constant,
                order: 0,
                needs: Needs::Shapes,
                inputs: &[Input::constant("a"), Input::constant("b")],
                build: |_| Ok(Box::new($Op)),
                samples: |s| {
                    for (a, b) in PAIRS {
                        // Small whole numbers, so that some are equal.
                        let (a, b) = (s.integers(3, a), s.integers(3, b));
                        s.add([a, b], Params::new());
                    }
                    let (a, b) = (s.normal(&[3, 4]), s.normal(&[4]));
                    s.add([a, b], Params::new());
                },
                errors: |bad| {
                    let (a, b) = (bad.ones(&[2], DType::F64), bad.ones(&[3], DType::F64));
                    bad.add([a.clone(), b], Params::new(), "shapes [2] and [3] do not broadcast");
                    let ints = bad.ones(&[2], DType::I64);
                    bad.add([a, ints], Params::new(), "dtypes f64 and i64 do not mix");
                },
                ..Record::BLANK
            };
        }

        impl Operation for $Op {
            fn record(&self) -> &'static Record {
                $Op::RECORD
            }
            fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                let inputs = [("a", inputs[0]), ("b", inputs[1])];
                let mut specs = infer_binary(stringify!($name), inputs, Takes::Anything)?;
                specs[0].dtype = DType::Bool;
                Ok(specs)
            }
            fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
                let [a, b] = [inputs[0], inputs[1]];
                let dtype = crate::ops::pointwise::promote(stringify!($name), a, b)?;
                let common = Spec { shape: specs.swap_remove(0).shape, dtype };
                Ok(smallvec![map_mask(stringify!($name), &Predicates($Op), [a, b], common)?])
            }
            fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
                Ok(smallvec![None; call.inputs.len()])
            }
            fn batch(&self, call: &Batch<'_>) -> Batched {
                call.aligned(Box::new(*self))
            }
        }
    };
}

comparison! {
    /// Whether `a` equals `b`, element by element.
    equal, Equal: |a, b| a.eq(b), "=="
}
comparison! {
    /// Whether `a` differs from `b`, element by element.
    not_equal, NotEqual: |a, b| !a.eq(b), "!="
}
comparison! {
    /// Whether `a` is below `b`, element by element.
    less, Less: |a, b| a.lt(b), "<"
}
comparison! {
    /// Whether `a` is at or below `b`, element by element.
    less_equal, LessEqual: |a, b| a.le(b), "<="
}
comparison! {
    /// Whether `a` is above `b`, element by element.
    greater, Greater: |a, b| a.gt(b), ">"
}
comparison! {
    /// Whether `a` is at or above `b`, element by element.
    greater_equal, GreaterEqual: |a, b| a.ge(b), ">="
}

/// Defines logic on masks.
macro_rules! logic {
    (
        $(#[$doc:meta])*
        $name:ident($($argument:ident),+), $Op:ident, $n:literal:
        |$x:ident| $f:expr, $formula:literal, $samples:expr
    ) => {
        $(#[$doc])*
        ///
        /// Domain: masks.
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name($($argument: &Tensor),+) -> Result<Tensor> {
            apply_one(&$Op, &[$($argument),+])
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op;

        impl Predicate<$n> for $Op {
            #[inline(always)]
            fn f<R: Number>(&self, $x: [R; $n]) -> R::Mask {
                let $x = $x.map(|v| !v.eq(v.lit(0.0)));
                $f
            }
        }

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Arithmetic,
                formula: $formula,
                derivative: "none: the result is a mask",
                domain: "masks",
                class: Class::Constant,
                order: 0,
                needs: Needs::Shapes,
                inputs: &[$(Input::constant(stringify!($argument))),+],
                build: |_| Ok(Box::new($Op)),
                samples: $samples,
                errors: |bad| {
                    let wrong = bad.ones(&[2], DType::F32);
                    bad.add(vec![wrong; $n], Params::new(), "has dtype f32, expected bool");
                },
                ..Record::BLANK
            };
        }

        impl Operation for $Op {
            fn record(&self) -> &'static Record {
                $Op::RECORD
            }
            fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                match inputs {
                    [a, b] => infer_binary(stringify!($name), [("a", a), ("b", b)], Takes::Bools),
                    _ => infer_unary(stringify!($name), inputs[0], Takes::Bools),
                }
            }
            fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
                let inputs: [&Tensor; $n] = std::array::from_fn(|i| inputs[i]);
                Ok(smallvec![map_mask(stringify!($name), &Predicates($Op), inputs, specs.swap_remove(0))?])
            }
            fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
                Ok(smallvec![None; call.inputs.len()])
            }
            fn batch(&self, call: &Batch<'_>) -> Batched {
                call.aligned(Box::new(*self))
            }
        }
    };
    (@pairs) => {
        |s| {
            for (a, b) in PAIRS {
                let (a, b) = (s.mask(a), s.mask(b));
                s.add([a, b], Params::new());
            }
        }
    };
}

logic! {
    /// Whether both are true.
    ///
    /// ```
    /// let [a, b] = [[true, true, false], [true, false, false]].map(extensor::tensor);
    /// assert_eq!(extensor::ops::logical_and(&a, &b)?.to_vec::<bool>()?, [true, false, false]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    logical_and(a, b), LogicalAnd, 2: |x| x[0] & x[1], "y = a and b", logic!(@pairs)
}
logic! {
    /// Whether at least one is true.
    ///
    /// ```
    /// let [a, b] = [[true, true, false], [true, false, false]].map(extensor::tensor);
    /// assert_eq!(extensor::ops::logical_or(&a, &b)?.to_vec::<bool>()?, [true, true, false]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    logical_or(a, b), LogicalOr, 2: |x| x[0] | x[1], "y = a or b", logic!(@pairs)
}
logic! {
    /// Whether exactly one is true.
    ///
    /// ```
    /// let [a, b] = [[true, true, false], [true, false, false]].map(extensor::tensor);
    /// assert_eq!(extensor::ops::logical_xor(&a, &b)?.to_vec::<bool>()?, [false, true, false]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    logical_xor(a, b), LogicalXor, 2: |x| (x[0] | x[1]) & !(x[0] & x[1]), "y = either a or b", logic!(@pairs)
}
logic! {
    /// Whether it is false.
    ///
    /// ```
    /// let x = extensor::tensor([true, false]);
    /// assert_eq!(extensor::ops::logical_not(&x)?.to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    logical_not(x), LogicalNot, 1: |x| !x[0], "y = not x", |s| {
        for shape in SHAPES {
            let x = s.mask(shape);
            s.add([x], Params::new());
        }
    }
}
