//! The largest and the smallest so far along an axis.

use crate::exec::sort::Sorting;
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::samples::{Sample, Sampler};
use crate::ops::shape::required;
use crate::ops::shape::selecting::{CASES, Choice, Chosen, along, bad_axes};
use crate::{DType, Result, Tensor};

/// Defines the largest or the smallest so far.
macro_rules! so_far {
    (
        $(#[$doc:meta])*
        $name:ident, $backward:ident, $Op:ident: $smallest:literal, $formula:literal
    ) => {
        $(#[$doc])*
        ///
        /// In Python, the operation gives the values, and its `with_auxiliary` the positions too.
        ///
        /// Domain: at ties the last of equal elements.
        /// Conventions: of equal elements the last counts, and has the gradient; all from the first NaN on is NaN.
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(x: &Tensor, axis: i64) -> Result<(Tensor, Tensor)> {
            Chosen::new(axis, $Op).of(x)
        }

        #[doc = concat!("The gradient of [`", stringify!($name), "`]: `grad_output` added where the elements came from.")]
        #[track_caller]
        #[extensor_derive::noted]
        pub fn $backward(grad_output: &Tensor, indices: &Tensor, axis: i64) -> Result<Tensor> {
            Chosen::new(axis, $Op).gradient(grad_output, grad_output.shape(), indices)
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op;

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Reduction,
                formula: $formula,
                derivative: "g added where the elements came from",
                domain: "at ties the last of equal elements",
                conventions: "of equal elements the last counts, and has the gradient; all from the first NaN on is NaN",
                backward: signature!($backward(grad_output, auxiliary(indices); axis)),
                params: &[required("axis", "an axis, negative if counted from the end")],
                class: Class::General,
                needs: Needs::Auxiliary,
                auxiliary: 1,
                build: |p| {
                    let axis = p.int(stringify!($name), "axis")?;
                    Ok(Box::new(Chosen::new(axis, $Op)))
                },
                samples: so_far_samples,
                kinks: |sample| overtaken(sample, if $smallest { -1.0 } else { 1.0 }),
                errors: |bad| {
                    bad_axes(bad, &Params::new());
                    let x = bad.ones(&[2, 3], DType::F64);
                    bad.add([x], Params::new(), "axis is None, expected a whole number");
                },
                ..Record::BLANK
            };
        }

        impl Choice for $Op {
            const RECORD: &'static Record = $Op::RECORD;
            fn count(&self, size: usize) -> Result<usize> {
                Ok(size)
            }
            fn kernel(&self) -> Sorting {
                Sorting::SoFar { smallest: $smallest }
            }
            fn most(&self, size: usize) -> usize {
                size
            }
        }
    };
}

fn so_far_samples(s: &mut Sampler) {
    for (shape, axis) in CASES {
        let x = s.apart(shape);
        s.add([x], along(axis));
    }
    let x = s.apart(&[17_000]);
    s.add_large([x], along(0), "many numbers");
    let ties = crate::tensor([2.0, 1.0, 2.0, 1.0, 3.0, 1.0]);
    s.add_noted([ties], along(0), "ties");
}

/// Whether a number equals the largest (or, with −1, smallest) of those before it.
fn overtaken(sample: &Sample, sign: f64) -> bool {
    let axis = sample.number("axis", -1.0) as i64;
    sample.inputs[0].ndim() > 0
        && sample.groups(&axis.into()).iter().any(|line| {
            let mut most = f64::NEG_INFINITY;
            line.iter().any(|&x| {
                let tied = sign * x == most;
                most = most.max(sign * x);
                tied
            })
        })
}

so_far! {
    /// The largest of the elements up to each along `axis`, `yᵢ = max(x₀, …, xᵢ)`, and as `i64` where it is.
    ///
    /// ```
    /// use extensor::tensor;
    /// let (values, indices) = tensor([1.0, 3.0, 2.0, 3.0]).cummax(0)?;
    /// assert_eq!(values.to_vec::<f64>()?, [1.0, 3.0, 3.0, 3.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 1, 1, 3]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    cummax, cummax_backward, CumMax: false, "yᵢ = max(x₀, …, xᵢ)"
}

so_far! {
    /// The smallest of the elements up to each along `axis`, `yᵢ = min(x₀, …, xᵢ)`, and as `i64` where it is.
    ///
    /// ```
    /// use extensor::tensor;
    /// let (values, _) = tensor([3, 1, 2, 0]).cummin(0)?;
    /// assert_eq!(values.to_vec::<i32>()?, [3, 1, 1, 0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    cummin, cummin_backward, CumMin: true, "yᵢ = min(x₀, …, xᵢ)"
}
