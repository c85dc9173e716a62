//! The diagonals of matrices: taken out, summed, and filled.

use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::options::options;
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::shape::{bad_shape, countable, optional};
use crate::tensor::{Layout, axis_index};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};

options! {
    /// Which diagonal, of the matrices that lie along which axes.
    pub struct DiagonalOptions {
        /// How far it lies above the main one; below, if negative.
        offset: i64 = 0,
        /// The axis of the rows.
        axis1: i64 = -2,
        /// The axis of the columns.
        axis2: i64 = -1,
    }
}

impl From<i64> for DiagonalOptions {
    fn from(offset: i64) -> DiagonalOptions {
        DiagonalOptions::new().offset(offset)
    }
}

/// The diagonal of a matrix, or of each of several: `yᵢ = x[i, i + offset]`. A view.
///
/// Conventions: the matrices lie along the last two axes unless others are given; the diagonal is the
/// last axis of the result; one that lies outside has no elements; a view.
///
/// ```
/// use extensor::ops::{DiagonalOptions, diagonal};
/// use extensor::tensor;
/// let x = tensor([[1, 2, 3], [4, 5, 6]]);
/// assert_eq!(diagonal(&x, 0)?.to_vec::<i32>()?, [1, 5]);
/// assert_eq!(diagonal(&x, 1)?.to_vec::<i32>()?, [2, 6]);
/// assert_eq!(diagonal(&x, DiagonalOptions::new().axis1(1).axis2(0).offset(1))?.to_vec::<i32>()?, [4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn diagonal(x: &Tensor, offset: impl Into<DiagonalOptions>) -> Result<Tensor> {
    apply_one(&Diagonal(offset.into()), &[x])
}

/// The gradient of [`diagonal`]: `grad_output` on the diagonal of zeros of the input's shape.
#[track_caller]
#[extensor_derive::noted]
pub fn diagonal_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    offset: impl Into<DiagonalOptions>,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let [grad] = backward_of(&Diagonal(offset.into()), grad_output, &[&x], grad_output)?;
    Ok(grad)
}

/// The sum of a diagonal of a matrix, or of each of several: `y = Σ x[i, i + offset]`.
///
/// [`diagonal`] and [`sum`](crate::ops::sum), of which its derivatives are made: no copy is taken.
///
/// ```
/// use extensor::ops::trace;
/// use extensor::tensor;
/// let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(trace(&x, 0)?.item::<f64>()?, 5.0);
/// assert_eq!(trace(&x, -1)?.item::<f64>()?, 3.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn trace(x: &Tensor, offset: impl Into<DiagonalOptions>) -> Result<Tensor> {
    ops::sum(&diagonal(x, offset)?, -1)
}

/// Which diagonal of a matrix of so many rows and columns: where it begins, and how long it is.
#[derive(Clone, Copy)]
struct Line {
    row: usize,
    column: usize,
    len: usize,
}

impl Line {
    fn new(rows: usize, columns: usize, offset: i64) -> Line {
        let by = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
        let (row, column) = if offset < 0 { (by, 0) } else { (0, by) };
        let len = rows.saturating_sub(row).min(columns.saturating_sub(column));
        // Where there is none it is nowhere.
        if len == 0 { Line { row: 0, column: 0, len } } else { Line { row, column, len } }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Diagonal(DiagonalOptions);

impl Diagonal {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "diagonal",
        family: Family::Shape,
        formula: "yᵢ = x[i, i + offset]",
        derivative: "g on the diagonal, 0 elsewhere",
        conventions: "the matrices lie along the last two axes unless others are given; the diagonal is the last axis of the result; one that lies outside has no elements; a view",
        backward: signature!(diagonal_backward(grad_output, shape(x); offset, axis1, axis2)),
        params: &[
            optional("offset", "how far above the main diagonal; below, if negative", "0"),
            optional("axis1", "the axis of the rows", "-2"),
            optional("axis2", "the axis of the columns", "-1"),
        ],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let int = |name, default| Ok(p.optional_int("diagonal", name)?.unwrap_or(default));
            let options = DiagonalOptions::new().offset(int("offset", 0)?);
            let options = options.axis1(int("axis1", -2)?).axis2(int("axis2", -1)?);
            Ok(Box::new(Diagonal(options)))
        },
        samples: |s| {
            let cases: [(&[usize], i64, [i64; 2]); 14] = [
                (&[4, 4], 0, [-2, -1]),
                (&[4, 5], 1, [-2, -1]),
                (&[5, 3], -2, [-2, -1]),
                (&[2, 3, 4], 0, [-2, -1]),
                (&[2, 3, 4], 1, [0, 1]),
                (&[3, 2, 4], -1, [2, 0]),
                (&[3, 3], 3, [-2, -1]),
                (&[3, 3], i64::MIN, [-2, -1]),
                (&[3, 3], i64::MAX, [0, 1]),
                (&[1, 1], 0, [-2, -1]),
                (&[1, 6], 5, [-2, -1]),
                (&[0, 3], 0, [-2, -1]),
                (&[2, 3, 0], 1, [-2, -1]),
                (&[0, 3, 3], 0, [-2, -1]),
            ];
            for (shape, offset, [one, other]) in cases {
                let x = s.normal(shape);
                let params = Params::new().with("offset", offset);
                s.add([x], params.with("axis1", one).with("axis2", other));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[3], DType::F64);
            let message = "diagonal: x has shape [3], expected at least two dimensions";
            bad.add([x], Params::new(), message);
            let x = bad.ones(&[3, 4], DType::F64);
            let axis = |axis: i64| Params::new().with("axis1", axis);
            bad.add([x.clone()], axis(2), "axis 2 is out of range for 2 dimensions");
            bad.add([x.clone()], axis(1), "axis -1 is named twice");
            bad.add(
                [x],
                Params::new().with("offset", 0.5),
                "offset is 0.5, expected a whole number",
            );
        },
        ..Record::BLANK
    };

    /// The axes of the rows and of the columns.
    fn axes(&self, x: &Tensor) -> Result<[usize; 2]> {
        let op = "diagonal";
        if x.ndim() < 2 {
            return Err(bad_shape(op, "x", "at least two dimensions", x.shape()));
        }
        let axes =
            [axis_index(op, self.0.axis1, x.ndim())?, axis_index(op, self.0.axis2, x.ndim())?];
        if axes[0] == axes[1] {
            return Err(Error::RepeatedAxis { op, axis: self.0.axis2 });
        }
        Ok(axes)
    }
}

/// A diagonal as a view, its axis the last.
fn taken(x: &Tensor, [rows, columns]: [usize; 2], offset: i64) -> Tensor {
    let Layout { shape, strides, offset: start } = x.layout();
    let line = Line::new(shape[rows], shape[columns], offset);
    let kept = |axis: &usize| ![rows, columns].contains(axis);
    let kept: SmallVec<[usize; 6]> = (0..x.ndim()).filter(kept).collect();
    let mut sizes: Shape = kept.iter().map(|&axis| shape[axis]).collect();
    let mut steps: crate::tensor::Strides = kept.iter().map(|&axis| strides[axis]).collect();
    sizes.push(line.len);
    steps.push(strides[rows] + strides[columns]);
    let along = line.row as isize * strides[rows] + line.column as isize * strides[columns];
    // `Line` begins within the matrix, or at its start.
    let first = (*start as isize + along) as usize;
    x.with_layout(Layout { shape: sizes, strides: steps, offset: first })
}

impl Operation for Diagonal {
    fn record(&self) -> &'static Record {
        Diagonal::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let x = inputs[0];
        let [rows, columns] = self.axes(x)?;
        let mut shape = x.shape().clone();
        shape.remove(rows.max(columns));
        shape.remove(rows.min(columns));
        shape.push(Line::new(x.shape()[rows], x.shape()[columns], self.0.offset).len);
        Ok(spec(shape, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        Ok(smallvec![taken(inputs[0], self.axes(inputs[0])?, self.0.offset)])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let x = call.inputs[0];
        let [rows, columns] = self.axes(x)?;
        call.one(|| {
            let sides = [x.shape()[rows], x.shape()[columns]];
            let placed = placed(call.grad(), sides, self.0.offset)?;
            // The matrices lie last there: each axis goes to its place.
            let n = x.ndim();
            let mut others = 0..n as i64 - 2;
            let place = |axis: usize| match axis {
                axis if axis == rows => n as i64 - 2,
                axis if axis == columns => n as i64 - 1,
                _ => others.next().unwrap_or(0),
            };
            let order: SmallVec<[i64; 6]> = (0..n).map(place).collect();
            ops::transpose(&placed, &order[..])
        })
    }
}

/// Each vector along the last axis on the diagonal of a square matrix of zeros, which lie along the last
/// two axes: made of operations.
pub(crate) fn on_diagonal(x: &Tensor) -> Result<Tensor> {
    let len = x.shape()[x.ndim() - 1];
    placed(x, [len, len], 0)
}

/// The vectors along the last axis on a diagonal, as long as they are, of matrices of zeros. Nothing is
/// multiplied: a row of zeros follows each element, and the next row begins one later.
fn placed(x: &Tensor, [rows, columns]: [usize; 2], offset: i64) -> Result<Tensor> {
    let Line { row, column, len } = Line::new(rows, columns, offset);
    let n = x.ndim();
    let leading = &x.shape()[..n - 1];
    let with = |last: &[usize]| -> SmallVec<[i64; 6]> {
        leading.iter().chain(last).map(|&size| size as i64).collect()
    };
    if len == 0 || x.is_empty() {
        let zero = Tensor::zeros(Shape::scalar(), x.dtype())?;
        return ops::broadcast_to(&zero, &with(&[rows, columns])[..]);
    }
    let mut pads = vec![(0, 0); n + 1];
    pads[n] = (0, columns as i64);
    let wide = ops::pad(&ops::expand_dims(x, -1)?, pads, 0.0)?;
    let flat = ops::reshape(&wide, &with(&[len * (columns + 1)])[..])?;
    let reach = len * (columns + 1) - columns;
    let flat = ops::slice(&flat, -1, 0, reach as i64, 1)?;
    let first = row * columns + column;
    let behind = rows * columns - first - reach;
    let flat = if first == 0 && behind == 0 {
        flat
    } else {
        let mut pads = vec![(0, 0); n];
        pads[n - 1] = (first as i64, behind as i64);
        ops::pad(&flat, pads, 0.0)?
    };
    ops::reshape(&flat, &with(&[rows, columns])[..])
}

/// A matrix with a vector on its diagonal and zeros elsewhere; of a matrix, its diagonal.
///
/// Conventions: a vector of n elements gives a square matrix with n + |offset| rows; of a matrix the
/// diagonal is a view.
///
/// ```
/// use extensor::ops::diag;
/// use extensor::tensor;
/// let y = diag(&tensor([1, 2]), 0)?;
/// assert_eq!(y.to_vec::<i32>()?, [1, 0, 0, 2]);
/// assert_eq!(diag(&y, 0)?.to_vec::<i32>()?, [1, 2]);
/// assert_eq!(diag(&tensor([7]), 1)?.to_vec::<i32>()?, [0, 7, 0, 0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn diag(x: &Tensor, offset: i64) -> Result<Tensor> {
    apply_one(&Diag { offset }, &[x])
}

/// The gradient of [`diag`]: of a vector the diagonal of `grad_output`, of a matrix `grad_output` on the
/// diagonal.
#[track_caller]
#[extensor_derive::noted]
pub fn diag_backward(grad_output: &Tensor, input_shape: &[usize], offset: i64) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let [grad] = backward_of(&Diag { offset }, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Diag {
    offset: i64,
}

impl Diag {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "diag",
        family: Family::Shape,
        formula: "y[i, i + offset] = xᵢ, 0 elsewhere",
        derivative: "g[i, i + offset]",
        conventions: "a vector of n elements gives a square matrix with n + |offset| rows; of a matrix the diagonal is a view",
        backward: signature!(diag_backward(grad_output, shape(x); offset)),
        params: &[optional("offset", "how far above the main diagonal; below, if negative", "0")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| Ok(Box::new(Diag { offset: p.optional_int("diag", "offset")?.unwrap_or(0) })),
        samples: |s| {
            let cases: [(&[usize], i64); 13] = [
                (&[4], 0),
                (&[3], 2),
                (&[3], -1),
                (&[1], 0),
                (&[0], 0),
                (&[0], 2),
                (&[0], -3),
                (&[4, 4], 0),
                (&[3, 5], 1),
                (&[5, 3], -4),
                (&[3, 3], 7),
                (&[0, 3], 0),
                (&[2, 2], i64::MIN),
            ];
            for (shape, offset) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("offset", offset));
            }
        },
        errors: |bad| {
            let offset = |offset: i64| Params::new().with("offset", offset);
            let x = bad.ones(&[], DType::F64);
            bad.add([x], offset(0), "diag: x has shape [], expected one dimension or two");
            let x = bad.ones(&[2, 2, 2], DType::F64);
            bad.add([x], offset(0), "x has shape [2, 2, 2], expected one dimension or two");
            let x = bad.ones(&[2], DType::F64);
            bad.add([x.clone()], offset(i64::MAX), "more elements than memory can address");
            bad.add([x], offset(1 << 40), "more elements than memory can address");
        },
        ..Record::BLANK
    };

    /// Rows and columns of the matrix that a vector becomes.
    fn sides(&self, x: &Tensor) -> Result<Shape> {
        let by = usize::try_from(self.offset.unsigned_abs()).ok();
        let side = by.and_then(|by| by.checked_add(x.len()));
        countable("diag", [side, side].into_iter())
    }
}

impl Operation for Diag {
    fn record(&self) -> &'static Record {
        Diag::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let x = inputs[0];
        let shape = match **x.shape() {
            [_] => self.sides(x)?,
            [rows, columns] => Shape::from([Line::new(rows, columns, self.offset).len]),
            _ => return Err(bad_shape("diag", "x", "one dimension or two", x.shape())),
        };
        Ok(spec(shape, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let x = inputs[0];
        Ok(smallvec![match *specs[0].shape {
            [rows, columns] => placed(x, [rows, columns], self.offset)?,
            _ => taken(x, [0, 1], self.offset),
        }])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| match **call.inputs[0].shape() {
            [rows, columns] => placed(call.grad(), [rows, columns], self.offset),
            _ => Ok(taken(call.grad(), [0, 1], self.offset)),
        })
    }
}
