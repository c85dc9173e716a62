//! More of a tensor: repeated.

use crate::ops::batching::{Batch, Batched, View};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::shape::{bad_parameter, countable, required};
use crate::{DType, Integers, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};

/// `x` repeated `repeats[i]` times along axis `i`. Where `x` has more axes than there are numbers,
/// the first axes are not repeated; where it has fewer, it gets new leading axes.
///
/// Conventions: numbers and axes are matched from the last on.
///
/// ```
/// use extensor::ops::tile;
/// use extensor::tensor;
/// let y = tile(&tensor([1, 2]), [2, 2])?;
/// assert_eq!(y.shape(), [2, 4]);
/// assert_eq!(y.to_vec::<i32>()?, [1, 2, 1, 2, 1, 2, 1, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn tile(x: &Tensor, repeats: impl Integers) -> Result<Tensor> {
    let repeats = repeats.integers();
    apply_one(&Tile { repeats }, &[x])
}

/// The gradient of [`tile`]: `grad_output` summed over the repetitions.
#[track_caller]
#[extensor_derive::noted]
pub fn tile_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    repeats: impl Integers,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let repeats = repeats.integers();
    let [grad] = backward_of(&Tile { repeats }, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Debug)]
pub(crate) struct Tile {
    repeats: SmallVec<[i64; 4]>,
}

impl Tile {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "tile",
        family: Family::Shape,
        formula: "y = x repeated along its axes",
        derivative: "g summed over the repetitions",
        conventions: "numbers and axes are matched from the last on",
        backward: signature!(tile_backward(grad_output, shape(x); repeats)),
        params: &[required("repeats", "how often, for each axis")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let repeats = p.ints("tile", "repeats")?.into();
            Ok(Box::new(Tile { repeats }))
        },
        samples: |s| {
            let cases: [(&[usize], &[i64]); 9] = [
                (&[2, 3], &[2, 3]),
                (&[2, 3], &[2]),
                (&[3], &[2, 2]),
                (&[], &[3]),
                (&[], &[]),
                (&[2, 3], &[1, 1]),
                (&[2, 3], &[0, 2]),
                (&[0, 3], &[2, 2]),
                (&[2, 1, 3], &[2, 4, 1]),
            ];
            for (shape, repeats) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("repeats", repeats));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = Params::new().with("repeats", [2, -1]);
            let message = "repeats is [2, -1], expected numbers of at least 0";
            bad.add([x.clone()], params, message);
            let params = Params::new().with("repeats", [i64::MAX, i64::MAX]);
            bad.add([x], params, "more elements than memory can address");
        },
        ..Record::BLANK
    };

    /// For each axis of the result how often and how much is repeated.
    fn pairs(&self, shape: &Shape) -> Result<SmallVec<[(usize, usize); 6]>> {
        let ndim = shape.len().max(self.repeats.len());
        let from_end = |i: usize, len: usize| (i + len).checked_sub(ndim);
        let pair = |i: usize| {
            let times = from_end(i, self.repeats.len()).map_or(1, |k| self.repeats[k]);
            let size = from_end(i, shape.len()).map_or(1, |k| shape[k]);
            let times = usize::try_from(times).map_err(|_| {
                let expected = "numbers of at least 0";
                bad_parameter("tile", "repeats", expected, &self.repeats[..])
            })?;
            Ok((times, size))
        };
        (0..ndim).map(pair).collect()
    }
}

impl Operation for Tile {
    fn record(&self) -> &'static Record {
        Tile::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let pairs = self.pairs(inputs[0].shape())?;
        let sizes = pairs.iter().map(|&(times, size)| times.checked_mul(size));
        Ok(spec(countable("tile", sizes)?, inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let x = inputs[0];
        if specs[0].shape.contains(&0) {
            let Spec { shape, dtype } = specs[0].clone();
            return Ok(smallvec![Tensor::zeros(shape, dtype)?]);
        }
        // Each axis beside one along which nothing changes; then both as one, in a copy.
        let pairs = self.pairs(x.shape())?;
        let once: Shape = pairs.iter().flat_map(|&(_, size)| [1, size]).collect();
        let often: Shape = pairs.iter().flat_map(|&(times, size)| [times, size]).collect();
        let repeated = ops::broadcast_to(&ops::reshape(x, &once)?, &often)?;
        Ok(smallvec![ops::reshape(&repeated, &specs[0].shape)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let shape = call.inputs[0].shape();
        call.one(|| {
            let pairs = self.pairs(shape)?;
            let often: Shape = pairs.iter().flat_map(|&(times, size)| [times, size]).collect();
            let repetitions: SmallVec<[i64; 6]> = (0..pairs.len() as i64).map(|i| 2 * i).collect();
            let apart = ops::reshape(call.grad(), &often)?;
            ops::reshape(&ops::sum(&apart, &repetitions[..])?, shape)
        })
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let repeats = std::iter::once(1).chain(self.repeats.iter().copied());
        let missing = call.inputs[0].ndim().saturating_sub(self.repeats.len());
        let repeats = std::iter::repeat_n(1, missing).chain(repeats).collect();
        // More repetitions than axes: the new axes are the example's, after the batch's.
        let view = View { ndim: self.repeats.len(), ..View::WHOLE };
        call.call(Box::new(Tile { repeats }), view, View::default())
    }
}
