//! Operations on the bits of numbers: logic, shifts, the sign, the next float. None has a
//! derivative, and all types of one size share a kernel.

use crate::exec::bits::Bits;
use crate::exec::check::Check;
use crate::exec::{launch, launch_one};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs, apply_one};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, fit_all, infer_binary, infer_unary};
use crate::ops::record::{Class, Family, Input, Needs, Record};
use crate::ops::samples::{PAIRS, SHAPES};
use crate::{DType, Result, Tensor};
use extensor_kernels::bits::Bitwise;
use smallvec::smallvec;

/// Runs a kernel over both inputs, broadcast and in the dtype of the result.
fn combine(op: &'static str, what: Bitwise, inputs: [&Tensor; 2], spec: Spec) -> Result<Tensor> {
    let [a, b] = fit_all(op, inputs, &spec)?;
    launch_one(op, &Bits::Pair(what), &[&a, &b], spec)
}

/// Whether the dtype has negative whole numbers.
fn is_signed(dtype: DType) -> bool {
    dtype.integer_range().0 < 0
}

/// How far to shift cannot be negative.
fn no_negative_shift(op: &'static str, b: &Tensor) -> Result<()> {
    if !is_signed(b.dtype()) {
        return Ok(());
    }
    Check::Shifts.on(op, b)
}

/// Defines an operation on the bits of two broadcast tensors.
macro_rules! bitwise {
    (
        $(#[$doc:meta])*
        $name:ident, $Op:ident of $takes:ident: |$dtype:ident| $what:expr,
        $formula:literal, $conventions:literal;
        check $check:expr; sample |$s:ident, $shape:ident| $sample:expr;
        wrong $wrong:expr, $message:literal;
    ) => {
        $(#[$doc])*
        #[doc = crate::ops::source::edges!(conventions: $conventions,)]
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            apply_one(&$Op, &[a, b])
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op;

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Arithmetic,
                formula: $formula,
                derivative: "none: the result is made of bits",
                conventions: $conventions,
                class: Class::Constant,
                order: 0,
                needs: Needs::Shapes,
                inputs: &[Input::constant("a"), Input::constant("b")],
                build: |_| Ok(Box::new($Op)),
                samples: |$s| {
                    for pair in PAIRS {
                        let [a, b] = [pair.0, pair.1].map(|$shape| $sample);
                        $s.add([a, b], Params::new());
                    }
                },
                errors: |bad| {
                    let [a, b] = [2, 3].map(|n| bad.ones(&[n], if $wrong == DType::I64 { DType::F64 } else { DType::I64 }));
                    bad.add([a, b], Params::new(), "shapes [2] and [3] do not broadcast");
                    let wrong = bad.ones(&[2], $wrong);
                    bad.add([wrong.clone(), wrong], Params::new(), $message);
                },
                ..Record::BLANK
            };
        }

        impl Operation for $Op {
            fn record(&self) -> &'static Record {
                $Op::RECORD
            }
            fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                infer_binary(stringify!($name), [("a", inputs[0]), ("b", inputs[1])], Takes::$takes)
            }
            fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
                let (inputs, spec) = ([inputs[0], inputs[1]], specs.swap_remove(0));
                let check: fn(&'static str, &Tensor) -> Result<()> = $check;
                check(stringify!($name), inputs[1])?;
                let $dtype = spec.dtype;
                Ok(smallvec![combine(stringify!($name), $what, inputs, spec)?])
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

bitwise! {
    /// The bits set in both `a` and `b`, whole numbers or masks, broadcast.
    ///
    /// ```
    /// let y = extensor::ops::bitwise_and(&extensor::tensor([12, 10]), &extensor::tensor(6))?;
    /// assert_eq!(y.to_vec::<i32>()?, [4, 2]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    bitwise_and, BitwiseAnd of Bits: |_dtype| Bitwise::And, "y = a & b", "";
    check |_, _| Ok(()); sample |s, shape| s.integers(1000, shape);
    wrong DType::F32, "a has dtype f32, expected a whole-number type or bool";
}

bitwise! {
    /// The bits set in `a` or in `b`, whole numbers or masks, broadcast.
    ///
    /// ```
    /// let y = extensor::ops::bitwise_or(&extensor::tensor([12, 10]), &extensor::tensor(6))?;
    /// assert_eq!(y.to_vec::<i32>()?, [14, 14]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    bitwise_or, BitwiseOr of Bits: |_dtype| Bitwise::Or, "y = a | b", "";
    check |_, _| Ok(()); sample |s, shape| s.integers(1000, shape);
    wrong DType::F32, "a has dtype f32, expected a whole-number type or bool";
}

bitwise! {
    /// The bits set in one of `a` and `b`, whole numbers or masks, broadcast.
    ///
    /// ```
    /// let y = extensor::ops::bitwise_xor(&extensor::tensor([12, 10]), &extensor::tensor(6))?;
    /// assert_eq!(y.to_vec::<i32>()?, [10, 12]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    bitwise_xor, BitwiseXor of Bits: |_dtype| Bitwise::Xor, "y = a ^ b", "";
    check |_, _| Ok(()); sample |s, shape| s.integers(1000, shape);
    wrong DType::F32, "a has dtype f32, expected a whole-number type or bool";
}

bitwise! {
    /// `a·2ᵇ` for whole numbers, broadcast: the bits of `a` moved up by `b` bits, of which those
    /// beyond the width are lost. A negative `b` is an error.
    ///
    /// ```
    /// use extensor::ops::bitwise_left_shift;
    /// use extensor::tensor;
    /// let y = bitwise_left_shift(&tensor([3, -1, 1]), &tensor([2, 1, 40]))?;
    /// assert_eq!(y.to_vec::<i32>()?, [12, -2, 0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    bitwise_left_shift, BitwiseLeftShift of Integers: |_dtype| Bitwise::ShiftLeft,
    "y = a << b", "0 where b is the width or more; a negative b is an error";
    check no_negative_shift; sample |s, shape| s.integers(70, shape);
    wrong DType::Bool, "a has dtype bool, expected a whole-number type";
}

bitwise! {
    /// `⌊a/2ᵇ⌋` for whole numbers, broadcast: the bits of `a` moved down by `b` bits. A negative
    /// `b` is an error.
    ///
    /// ```
    /// use extensor::ops::bitwise_right_shift;
    /// use extensor::tensor;
    /// let y = bitwise_right_shift(&tensor([13, -3, -3]), &tensor([2, 1, 40]))?;
    /// assert_eq!(y.to_vec::<i32>()?, [3, -2, -1]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    bitwise_right_shift, BitwiseRightShift of Integers: |dtype| {
        if is_signed(dtype) { Bitwise::ShiftRightSigned } else { Bitwise::ShiftRight }
    },
    "y = a >> b", "where b is the width or more 0, or −1 for a negative a; a negative b is an error";
    check no_negative_shift; sample |s, shape| s.integers(70, shape);
    wrong DType::Bool, "a has dtype bool, expected a whole-number type";
}

bitwise! {
    /// The float of the dtype that is next to `a` in the direction of `b`, broadcast; `b` where they
    /// are equal, NaN where either is.
    ///
    /// ```
    /// use extensor::ops::nextafter;
    /// use extensor::tensor;
    /// let y = nextafter(&tensor([1.0, 0.0, 2.0]), &tensor([2.0, -1.0, 2.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0 + f64::EPSILON, -5e-324, 2.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    nextafter, NextAfter of Floats: |dtype| Bitwise::NextAfter { infinity: dtype.infinity_bits() },
    "y = the float next to a towards b", "b where a = b, zeros of either sign included; NaN for NaN";
    check |_, _| Ok(()); sample |s, shape| s.normal(shape);
    wrong DType::I64, "a has dtype i64, expected a float type";
}

/// The dtype of a result, if it is not that of the input.
const ITSELF: Option<DType> = None;
const MASK: Option<DType> = Some(DType::Bool);

/// Defines a question or an operation on the bits of one tensor.
macro_rules! unary_bits {
    (
        $(#[$doc:meta])*
        $name:ident, $Op:ident of $takes:ident gives $result:ident,
        $formula:literal; kernel $kernel:expr;
        sample |$s:ident, $shape:ident| $sample:expr; wrong $wrong:expr, $message:literal;
    ) => {
        $(#[$doc])*
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(x: &Tensor) -> Result<Tensor> {
            apply_one(&$Op, &[x])
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op;

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Elementwise,
                formula: $formula,
                derivative: "none: the result is made of bits",
                class: Class::Constant,
                order: 0,
                needs: Needs::Shapes,
                inputs: &[Input::constant("x")],
                build: |_| Ok(Box::new($Op)),
                samples: |$s| {
                    for $shape in SHAPES {
                        let x = $sample;
                        $s.add([x], Params::new());
                    }
                },
                errors: |bad| {
                    let wrong = bad.ones(&[2], $wrong);
                    bad.add([wrong], Params::new(), $message);
                },
                ..Record::BLANK
            };
        }

        impl Operation for $Op {
            fn record(&self) -> &'static Record {
                $Op::RECORD
            }
            fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                let mut specs = infer_unary(stringify!($name), inputs[0], Takes::$takes)?;
                specs[0].dtype = $result.unwrap_or(specs[0].dtype);
                Ok(specs)
            }
            fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
                launch(stringify!($name), &$kernel, &[inputs[0]], specs)
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

unary_bits! {
    /// The bits not set in `x`, whole numbers or masks: `−1 − x` for signed ones, `not x` for masks.
    ///
    /// ```
    /// assert_eq!(extensor::ops::bitwise_invert(&extensor::tensor([5, -1]))?.to_vec::<i32>()?, [-6, 0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    bitwise_invert, BitwiseInvert of Bits gives ITSELF, "y = ~x";
    kernel Bits::Invert;
    sample |s, shape| s.integers(1000, shape);
    wrong DType::F32, "x has dtype f32, expected a whole-number type or bool";
}

unary_bits! {
    /// Whether the sign bit of each float is set: for negative numbers, −0, and NaNs that have it.
    ///
    /// ```
    /// let y = extensor::ops::signbit(&extensor::tensor([-1.0, -0.0, 0.0, f64::INFINITY]))?;
    /// assert_eq!(y.to_vec::<bool>()?, [true, true, false, false]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    signbit, SignBit of Floats gives MASK, "y = whether x is negative, −0 included";
    kernel Bits::Top;
    sample |s, shape| s.normal(shape);
    wrong DType::I32, "x has dtype i32, expected a float type";
}
