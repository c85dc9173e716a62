//! Sums, differences, and the choice between two: operations whose derivatives need no values.

use crate::exec::choose::Choose;
use crate::exec::launch;
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, infer_binary, infer_unary, map_number};
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::samples::{LARGE, PAIRS, SHAPES};
use crate::tensor::broadcast;
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use extensor_kernels::map::{NumberFormula, Numbers};
use extensor_kernels::number::Number;
use smallvec::smallvec;

/// Defines `a ± b`.
macro_rules! additive {
    (
        $(#[$doc:meta])*
        $name:ident, $backward:ident, $Op:ident: |$a:ident, $b:ident| $f:expr,
        db = |$g:ident| $db:expr; $formula:literal, $derivative:literal
    ) => {
        $(#[$doc])*
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            apply_one(&$Op, &[a, b])
        }

        #[doc = concat!("The gradients of [`", stringify!($name), "`]: `", $derivative, "`, each summed to its operand's shape.")]
        #[track_caller]
        #[extensor_derive::noted]
        pub fn $backward(
            grad_output: &Tensor,
            a_shape: &[usize],
            b_shape: &[usize],
        ) -> Result<(Tensor, Tensor)> {
            let dtype = grad_output.dtype();
            let [a, b] = [a_shape, b_shape].map(|shape| placeholder(&Shape::from(shape), dtype));
            let output = placeholder(grad_output.shape(), dtype)?;
            let [da, db] = backward_of(&$Op, grad_output, &[&a?, &b?], &output)?;
            Ok((da, db))
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op;

        impl NumberFormula<2> for $Op {
            #[inline(always)]
            fn f<R: Number>(&self, [$a, $b]: [R; 2]) -> R {
                $f
            }
        }

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Arithmetic,
                formula: $formula,
                derivative: $derivative,
                backward: signature!($backward(grad_output, shape(a), shape(b))),
                inputs: &[Input::new("a"), Input::new("b")],
                needs: Needs::Shapes,
                build: |_| Ok(Box::new($Op)),
                samples: |s| {
                    for (a, b) in PAIRS {
                        let inputs = [s.normal(a), s.normal(b)];
                        s.add(inputs, Params::new());
                    }
                    let inputs = [s.normal(&[LARGE / 200, 200]), s.normal(&[200])];
                    s.add_large(inputs, Params::new(), "many numbers");
                },
                errors: |bad| {
                    let [a, b] = [[2, 3], [3, 2]].map(|shape| bad.ones(&shape, DType::F64));
                    bad.add([a.clone(), b], Params::new(), "shapes [2, 3] and [3, 2] do not broadcast");
                    let ints = bad.ones(&[2, 3], DType::I32);
                    bad.add([a.clone(), ints], Params::new(), "dtypes f64 and i32 do not mix");
                    let mask = bad.ones(&[2, 3], DType::Bool);
                    bad.add([mask.clone(), mask], Params::new(), "a has dtype bool, expected a number type");
                    bad.add([a], Params::new(), "got inputs (1 tensor), expected (a, b)");
                },
                ..Record::BLANK
            };
        }

        impl Operation for $Op {
            fn record(&self) -> &'static Record {
                $Op::RECORD
            }
            fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                infer_binary(stringify!($name), [("a", inputs[0]), ("b", inputs[1])], Takes::Numbers)
            }
            fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
                let inputs = [inputs[0], inputs[1]];
                Ok(smallvec![map_number(stringify!($name), &Numbers($Op), inputs, specs.swap_remove(0))?])
            }
            fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
                let $g = call.grad();
                call.two(|| Ok($g.clone()), || $db)
            }
        }
    };
}

additive! {
    /// `a + b`, broadcast; whole numbers wrap around. `&a + &b` calls it.
    ///
    /// ```
    /// use extensor::ops::add;
    /// use extensor::tensor;
    /// let y = add(&tensor([[1.0], [2.0]]), &tensor([10.0, 20.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [11.0, 21.0, 12.0, 22.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    add, add_backward, Add: |a, b| a + b, db = |g| Ok(g.clone()); "y = a + b", "(g, g)"
}

additive! {
    /// `a − b`, broadcast; whole numbers wrap around. `&a - &b` calls it.
    ///
    /// ```
    /// use extensor::ops::subtract;
    /// use extensor::tensor;
    /// let y = subtract(&tensor([1.0, 2.0]), &tensor(0.5))?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.5, 1.5]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    subtract, subtract_backward, Subtract: |a, b| a - b, db = |g| negate(g); "y = a − b", "(g, −g)"
}

/// `−x`; whole numbers wrap around. `-&x` calls it.
///
/// ```
/// assert_eq!(extensor::ops::negate(&extensor::tensor([1, -2]))?.to_vec::<i32>()?, [-1, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn negate(x: &Tensor) -> Result<Tensor> {
    apply_one(&Negate, &[x])
}

/// The gradient of [`negate`]: `−g`.
#[track_caller]
#[extensor_derive::noted]
pub fn negate_backward(grad_output: &Tensor) -> Result<Tensor> {
    let x = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&Negate, grad_output, &[&x], &x)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Negate;

impl NumberFormula<1> for Negate {
    #[inline(always)]
    fn f<R: Number>(&self, [x]: [R; 1]) -> R {
        -x
    }
}

impl Negate {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "negate",
        family: Family::Arithmetic,
        formula: "y = −x",
        derivative: "y′ = −1",
        backward: signature!(negate_backward(grad_output)),
        needs: Needs::Shapes,
        build: |_| Ok(Box::new(Negate)),
        samples: |s| {
            for shape in SHAPES {
                let x = s.normal(shape);
                s.add([x], Params::new());
            }
        },
        errors: |bad| {
            let mask = bad.ones(&[2], DType::Bool);
            bad.add([mask], Params::new(), "x has dtype bool, expected a number type");
        },
        ..Record::BLANK
    };
}

impl Operation for Negate {
    fn record(&self) -> &'static Record {
        Negate::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        infer_unary("negate", inputs[0], Takes::Numbers)
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        Ok(smallvec![map_number("negate", &Numbers(Negate), [inputs[0]], specs.swap_remove(0))?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| negate(call.grad()))
    }
}

/// `a` where `condition` is true, `b` elsewhere, all three broadcast. (`where` is a keyword in
/// Rust.)
///
/// ```
/// use extensor::ops::where_;
/// use extensor::tensor;
/// let y = where_(&tensor([true, false]), &tensor([1.0, 2.0]), &tensor(0.0))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn where_(condition: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    apply_one(&Where, &[condition, a, b])
}

/// The gradients of [`where_`] for `a` and `b`: `g` where each was chosen, 0 elsewhere, summed to
/// the operand's shape.
#[track_caller]
#[extensor_derive::noted]
pub fn where_backward(
    grad_output: &Tensor,
    condition: &Tensor,
    a_shape: &[usize],
    b_shape: &[usize],
) -> Result<(Tensor, Tensor)> {
    let dtype = grad_output.dtype();
    let [a, b] = [a_shape, b_shape].map(|shape| placeholder(&Shape::from(shape), dtype));
    let output = placeholder(grad_output.shape(), dtype)?;
    let [da, db] = backward_of(&Where, grad_output, &[condition, &a?, &b?], &output)?;
    Ok((da, db))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Where;

impl Where {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "where",
        family: Family::Arithmetic,
        formula: "y = a where the condition holds, b elsewhere",
        derivative: "(g, 0) where the condition holds, (0, g) elsewhere",
        backward: signature!(where_backward(grad_output, condition, shape(a), shape(b))),
        inputs: &[Input::constant("condition"), Input::new("a"), Input::new("b")],
        class: Class::Elementwise,
        build: |_| Ok(Box::new(Where)),
        samples: |s| {
            for (a, b) in PAIRS {
                let shape = broadcast("where", &Shape::from(a), &Shape::from(b));
                let shape = shape.unwrap_or_else(|e| panic!("a sample cannot be made: {e}"));
                let inputs = [s.mask(&shape), s.normal(a), s.normal(b)];
                s.add(inputs, Params::new());
            }
            let inputs = [s.mask(&[4]), s.normal(&[3, 1]), s.normal(&[])];
            s.add(inputs, Params::new());
        },
        errors: |bad| {
            let (x, mask) = (bad.ones(&[2], DType::F64), bad.ones(&[2], DType::Bool));
            let inputs = [x.clone(), x.clone(), x.clone()];
            bad.add(inputs, Params::new(), "condition has dtype f64, expected bool");
            let inputs = [bad.ones(&[3], DType::Bool), x.clone(), x.clone()];
            bad.add(inputs, Params::new(), "shapes [3] and [2] do not broadcast");
            let inputs = [mask, x, bad.ones(&[2], DType::I64)];
            bad.add(inputs, Params::new(), "dtypes f64 and i64 do not mix");
        },
        ..Record::BLANK
    };
}

impl Operation for Where {
    fn record(&self) -> &'static Record {
        Where::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let [condition, a, b] = [inputs[0], inputs[1], inputs[2]];
        if !condition.is_bool() {
            let (expected, got) = ("bool", condition.dtype());
            return Err(Error::DType { op: "where", argument: "condition", expected, got });
        }
        let both = infer_binary("where", [("a", a), ("b", b)], Takes::Anything)?;
        let shape = broadcast("where", condition.shape(), &both[0].shape)?;
        Ok(spec(shape, both[0].dtype))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let Spec { shape, dtype } = &specs[0];
        let condition = ops::broadcast_to(inputs[0], shape)?;
        let fit = |x: &Tensor| ops::broadcast_to(&ops::cast(x, *dtype)?, shape);
        let (a, b) = (fit(inputs[1])?, fit(inputs[2])?);
        launch("where", &Choose::Either, &[&condition, &a, &b], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, condition) = (call.grad(), call.inputs[0]);
        let zero = Tensor::scalar_of(0.0, g.dtype())?;
        Ok(smallvec![
            None,
            if call.wanted[1] { Some(where_(condition, g, &zero)?) } else { None },
            if call.wanted[2] { Some(where_(condition, &zero, g)?) } else { None },
        ])
    }
}
