//! The same values laid out differently in memory.

use crate::tensor::{Layout, match_bits, unravel};
use crate::{Result, Shape, Tensor};
use std::fmt;

/// A way in which a tensor's elements can lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Row-major without gaps.
    Contiguous,
    /// The memory transposed: the first axis varies fastest.
    Transposed,
    /// Every second element along each axis of a larger buffer, from the second on.
    Sliced,
    /// Every axis runs backwards through memory.
    Flipped,
}

impl Arrangement {
    /// Those that are not contiguous.
    pub const STRIDED: [Arrangement; 3] =
        [Arrangement::Transposed, Arrangement::Sliced, Arrangement::Flipped];

    /// The same values, arranged so. What lies between them in memory is NaN, or −1.
    ///
    /// ```
    /// use extensor::check::Arrangement;
    /// use extensor::tensor;
    ///
    /// let x = tensor([[1, 2, 3], [4, 5, 6]]);
    /// let flipped = Arrangement::Flipped.of(&x)?;
    /// assert_eq!(flipped.strides(), [-3, -1]);
    /// assert_eq!(flipped.to_vec::<i32>()?, x.to_vec::<i32>()?);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn of(self, x: &Tensor) -> Result<Tensor> {
        let shape = x.shape().clone();
        let row_major: Vec<isize> = shape.strides().to_vec();
        let len = x.len();
        match self {
            Arrangement::Contiguous => lay_out(x, len, 0, &row_major),
            Arrangement::Transposed => {
                let reversed: Shape = shape.iter().rev().copied().collect();
                let strides: Vec<isize> = reversed.strides().iter().rev().copied().collect();
                lay_out(x, len, 0, &strides)
            }
            Arrangement::Sliced => {
                let outer: Shape = shape.iter().map(|&size| 2 * size + 1).collect();
                let strides = outer.strides();
                let offset: isize = strides.iter().sum();
                let doubled: Vec<isize> = strides.iter().map(|s| 2 * s).collect();
                let len = outer.iter().product();
                lay_out(x, len, offset as usize, &doubled)
            }
            Arrangement::Flipped => {
                let back: Vec<isize> = row_major.iter().map(|s| -s).collect();
                lay_out(x, len, len.saturating_sub(1), &back)
            }
        }
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Arrangement::Contiguous => "contiguous",
            Arrangement::Transposed => "transposed",
            Arrangement::Sliced => "sliced",
            Arrangement::Flipped => "flipped",
        })
    }
}

/// Copies the elements into a buffer of `len` others, at these strides.
fn lay_out(x: &Tensor, len: usize, offset: usize, strides: &[isize]) -> Result<Tensor> {
    let shape = x.shape().clone();
    let whole = x.contiguous()?;
    let layout =
        Layout { shape: shape.clone(), strides: strides.iter().copied().collect(), offset };
    let buffer = match_bits!(x.dtype(), T => {
        let values = whole.view::<T>();
        let first = whole.layout().offset;
        let values = &values.data()[first..first + whole.len()];
        Tensor::build("arrange", Shape::from([len.max(1)]), x.dtype(), |out: &mut [T]| {
            out.fill(!0); // NaN in every float type
            for (i, &value) in values.iter().enumerate() {
                let index = unravel(i, &shape);
                let steps = index.iter().zip(strides).map(|(&i, &s)| i as isize * s);
                out[(offset as isize + steps.sum::<isize>()) as usize] = value;
            }
        })
    })?;
    Ok(buffer.with_layout(layout))
}

/// The first slice along the first axis longer than 1, repeated along it without copying; `None` if
/// there is no such axis.
pub fn repeated(x: &Tensor) -> Option<Tensor> {
    let axis = x.shape().iter().position(|&size| size > 1)?;
    let mut layout = x.layout().clone();
    layout.strides[axis] = 0;
    Some(x.bare().with_layout(layout))
}
