//! The triangles of matrices.

use crate::exec::copy::Copying;
use crate::exec::launch;
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::shape::{bad_shape, optional};
use crate::{DType, Result, Tensor};

/// Defines the part of a matrix on one side of a diagonal.
macro_rules! triangle {
    (
        $(#[$doc:meta])*
        $name:ident, $backward:ident, $Op:ident, above = $above:literal, $formula:literal
    ) => {
        $(#[$doc])*
        ///
        /// Conventions: the last two axes are the matrices; what is left out is 0, NaN or not.
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(x: &Tensor, k: i64) -> Result<Tensor> {
            apply_one(&$Op { k }, &[x])
        }

        #[doc = concat!("The gradient of [`", stringify!($name), "`]: the same part of `grad_output`.")]
        #[track_caller]
        #[extensor_derive::noted]
        pub fn $backward(grad_output: &Tensor, k: i64) -> Result<Tensor> {
            let x = placeholder(grad_output.shape(), grad_output.dtype())?;
            let [grad] = backward_of(&$Op { k }, grad_output, &[&x], grad_output)?;
            Ok(grad)
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op {
            k: i64,
        }

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Shape,
                formula: $formula,
                derivative: "the same part of g, 0 elsewhere",
                conventions: "the last two axes are the matrices; what is left out is 0, NaN or not",
                backward: signature!($backward(grad_output; k)),
                params: &[optional("k", "a diagonal: 0 is the main one, 1 that above", "0")],
                class: Class::Linear,
                needs: Needs::Shapes,
                build: |p| {
                    let k = p.optional_int(stringify!($name), "k")?.unwrap_or(0);
                    Ok(Box::new($Op { k }))
                },
                samples: |s| {
                    let cases: [(&[usize], i64); 9] = [
                        (&[4, 4], 0),
                        (&[4, 5], 1),
                        (&[5, 3], -2),
                        (&[2, 3, 4], 0),
                        (&[3, 3], 7),
                        (&[3, 3], i64::MIN),
                        (&[1, 1], 0),
                        (&[0, 3], 0),
                        (&[2, 3, 0], 1),
                    ];
                    for (shape, k) in cases {
                        let x = s.normal(shape);
                        s.add([x], Params::new().with("k", k));
                    }
                },
                errors: |bad| {
                    let x = bad.ones(&[3], DType::F64);
                    let message = "x has shape [3], expected at least two axes";
                    bad.add([x], Params::new(), message);
                },
                ..Record::BLANK
            };
        }

        impl Operation for $Op {
            fn record(&self) -> &'static Record {
                $Op::RECORD
            }
            fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                infer_matrices(stringify!($name), inputs[0])
            }
            fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
                let kernel = Copying::Triangle { k: self.k, above: $above };
                launch(stringify!($name), &kernel, &[inputs[0]], specs)
            }
            fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
                call.one(|| $name(call.grad(), self.k))
            }
            fn batch(&self, call: &Batch<'_>) -> Batched {
                call.whole($Op { k: self.k })
            }
        }
    };
}

triangle! {
    /// The lower triangle of a matrix, or of each of several: 0 where `column − row > k`.
    ///
    /// ```
    /// use extensor::ops::tril;
    /// use extensor::tensor;
    /// let y = tril(&tensor([[1, 2], [3, 4]]), 0)?;
    /// assert_eq!(y.to_vec::<i32>()?, [1, 0, 3, 4]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    tril, tril_backward, Tril, above = false, "y = x where column − row <= k, 0 elsewhere"
}

triangle! {
    /// The upper triangle of a matrix, or of each of several: 0 where `column − row < k`.
    ///
    /// ```
    /// use extensor::ops::triu;
    /// use extensor::tensor;
    /// let y = triu(&tensor([[1, 2], [3, 4]]), 1)?;
    /// assert_eq!(y.to_vec::<i32>()?, [0, 2, 0, 0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    triu, triu_backward, Triu, above = true, "y = x where column − row >= k, 0 elsewhere"
}

fn infer_matrices(op: &'static str, x: &Tensor) -> Result<Specs> {
    if x.ndim() < 2 {
        return Err(bad_shape(op, "x", "at least two axes", x.shape()));
    }
    Ok(spec(x.shape().clone(), x.dtype()))
}
