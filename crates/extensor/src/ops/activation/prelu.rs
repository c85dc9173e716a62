//! The linear unit whose slope is learned.

use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Boxed, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, sum_dtype};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, infer_binary, map_real};
use crate::ops::record::{Family, Input, Record, signature};
use crate::{DType, Error, Result, Tensor};
use extensor_derive::method;
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;
use smallvec::smallvec;

/// `y = x` above 0 and `alpha·x` below, where `alpha` is a tensor that broadcasts to `x`: a number,
/// one for each channel (`[C, 1, 1]` for an image), or one for each element.
///
/// Conventions: at x = 0 the derivatives are those of the left side; alpha broadcasts to x.
///
/// ```
/// use extensor::ops::prelu;
/// use extensor::tensor;
/// let x = tensor([[-2.0, 1.0], [-4.0, 3.0]]);
/// let y = prelu(&x, &tensor([[0.5], [0.25]]))?;
/// assert_eq!(y.to_vec::<f64>()?, [-1.0, 1.0, -1.0, 3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn prelu(x: &Tensor, alpha: &Tensor) -> Result<Tensor> {
    apply_one(&Prelu, &[x, alpha])
}

/// The gradients of [`prelu`] for `x` and `alpha`: `(g, 0)` where `x > 0`, `(g·alpha, g·x)`
/// elsewhere (at 0 too), the second summed to the shape of `alpha`.
#[track_caller]
#[extensor_derive::noted]
pub fn prelu_backward(
    grad_output: &Tensor,
    x: &Tensor,
    alpha: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [dx, dalpha] = backward_of(&Prelu, grad_output, &[x, alpha], &output)?;
    Ok((dx, dalpha))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Prelu;

/// `above` where `x` is above 0, `below` where it is not, NaN where either is NaN.
#[inline(always)]
fn rectified<R: Real>(x: R, alpha: R, above: R, below: R) -> R {
    let y = R::select(x.lit(0.0).lt(x), above, R::select(x.is_nan(), x, below));
    R::select(alpha.is_nan(), alpha, y)
}

impl Formula<2> for Prelu {
    #[inline(always)]
    fn f<R: Real>(&self, [x, alpha]: [R; 2]) -> R {
        // A slope of 0 gives 0 at −∞ too.
        let zero = x.lit(0.0);
        rectified(x, alpha, x, R::select(alpha.eq(zero), zero, alpha * x))
    }
}

/// The gradient for `x`.
#[derive(Clone)]
struct ForX;
/// The gradient for `alpha`.
#[derive(Clone)]
struct ForAlpha;

impl Formula<3> for ForX {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x, alpha]: [R; 3]) -> R {
        rectified(x, alpha, g, g * alpha)
    }
}

impl Formula<3> for ForAlpha {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x, alpha]: [R; 3]) -> R {
        rectified(x, alpha, g.lit(0.0), g * x)
    }
}

impl Prelu {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "prelu",
        family: Family::Activation,
        formula: "y = x for x > 0, alpha·x elsewhere",
        derivative: "(1, 0) for x > 0, (alpha, x) elsewhere",
        conventions: "at x = 0 the derivatives are those of the left side; alpha broadcasts to x",
        inputs: &[Input::new("x"), Input::new("alpha")],
        backward: signature!(prelu_backward(grad_output, x, alpha)),
        build: |_| Ok(Box::new(Prelu)),
        samples: |s| {
            let cases: [(&[usize], &[usize]); 8] = [
                (&[3, 4], &[]),
                (&[3, 4], &[4]),
                (&[2, 3, 4, 4], &[3, 1, 1]),
                (&[3, 4], &[3, 4]),
                (&[3, 4], &[1, 1]),
                (&[], &[]),
                (&[0, 3], &[3]),
                (&[2, 0], &[]),
            ];
            for (x, alpha) in cases {
                let (x, alpha) = (s.away(-4.0, 4.0, &[0.0], x), s.away(-1.0, 1.0, &[0.0], alpha));
                s.add([x, alpha], Params::new());
            }
            let kink = crate::tensor([-1.0, 0.0, 1.0, -0.0]);
            s.add_noted([kink, crate::tensor(0.25)], Params::new(), "at the kink");
        },
        kinks: |sample| sample.meet([0, 1], |x, _| x == 0.0),
        errors: |bad| {
            let [x, alpha] = [[3, 4], [2, 4]].map(|shape| bad.ones(&shape, DType::F64));
            bad.add([x.clone(), alpha], Params::new(), "shapes [3, 4] and [2, 4]");
            let more = bad.ones(&[2, 3, 4], DType::F64);
            let message = "alpha has shape [2, 3, 4], expected one that broadcasts to [3, 4]";
            bad.add([x.clone(), more], Params::new(), message);
            let ints = bad.ones(&[4], DType::I64);
            bad.add([x, ints], Params::new(), "alpha has dtype i64, expected a float type");
        },
        ..Record::BLANK
    };
}

impl Operation for Prelu {
    fn record(&self) -> &'static Record {
        Prelu::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (x, alpha) = (inputs[0], inputs[1]);
        let specs = infer_binary("prelu", [("x", x), ("alpha", alpha)], Takes::Floats)?;
        if specs[0].shape != *x.shape() {
            return Err(Error::Shape {
                op: "prelu",
                argument: "alpha",
                expected: format!("one that broadcasts to {}", x.shape()),
                got: alpha.shape().clone(),
            });
        }
        Ok(specs)
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let inputs = [inputs[0], inputs[1]];
        Ok(smallvec![map_real("prelu", &Formulas(Prelu), inputs, specs.swap_remove(0))?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (op, g, x, alpha) = ("prelu_backward", call.grad(), call.inputs[0], call.inputs[1]);
        let spec = |to: &Tensor| Spec {
            shape: g.shape().clone(),
            dtype: sum_dtype(g.dtype(), g.shape(), to.shape()),
        };
        call.two(
            || map_real(op, &Formulas(ForX), [g, x, alpha], spec(x)),
            || map_real(op, &Formulas(ForAlpha), [g, x, alpha], spec(alpha)),
        )
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.aligned_whole(self.boxed())
    }
}
