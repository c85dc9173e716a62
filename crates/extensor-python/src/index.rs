//! `x[…]`: whole numbers, slices, `...`, `None`, masks and tensors of whole numbers.
//!
//! All of it is made of operations, so what is picked can be differentiated.

use crate::convert;
use crate::dtype::python_name;
use crate::error::OrRaise;
use crate::tensor::PyTensor;
use extensor::{DType, Tensor};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};

enum Item {
    At(i64),
    Range(Option<i64>, Option<i64>, i64),
    Rest,
    New,
    /// Whole numbers along one axis.
    Pick(Tensor),
    /// A mask over as many axes as it has.
    Mask(Tensor),
}

impl Item {
    fn of(key: &Bound<'_, PyAny>) -> PyResult<Item> {
        if key.is_none() {
            return Ok(Item::New);
        }
        if key.cast::<PyEllipsis>().is_ok() {
            return Ok(Item::Rest);
        }
        if let Ok(flag) = key.cast::<PyBool>() {
            return Ok(Item::Mask(Tensor::scalar(flag.is_true())));
        }
        if key.cast::<PyInt>().is_ok() {
            return whole(key).map(Item::At);
        }
        if let Ok(slice) = key.cast::<PySlice>() {
            let part = |name: &str| -> PyResult<Option<i64>> {
                let value = slice.getattr(name)?;
                if value.is_none() { Ok(None) } else { clamped(&value).map(Some) }
            };
            let step = part("step")?.unwrap_or(1);
            return Ok(Item::Range(part("start")?, part("stop")?, step));
        }
        let tensor = match key.cast::<PyList>() {
            Ok(_) => Some(convert::from_nested(key, None)?),
            Err(_) => convert::array(key)?,
        };
        let tensor = match tensor {
            Some(x) if x.is_empty() && x.dtype() == DType::F64 && key.cast::<PyList>().is_ok() => {
                extensor::ops::cast(&x, DType::I64).or_raise()?
            }
            Some(x) => x,
            None if key.hasattr("__index__")? => return whole(key).map(Item::At),
            None => return Err(misfit(key)),
        };
        match tensor.dtype() {
            DType::Bool => Ok(Item::Mask(tensor)),
            d if d.is_int() => Ok(Item::Pick(tensor)),
            dtype => {
                let name = python_name(dtype);
                Err(PyTypeError::new_err(format!(
                    "a tensor of dtype {name} is no index: whole numbers or bools are"
                )))
            }
        }
    }

    /// How many axes it stands for.
    fn axes(&self) -> usize {
        match self {
            Item::At(_) | Item::Range(..) | Item::Pick(_) => 1,
            Item::Mask(mask) => mask.ndim(),
            Item::Rest | Item::New => 0,
        }
    }
}

fn misfit(key: &Bound<'_, PyAny>) -> PyErr {
    let class = key.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
    PyTypeError::new_err(format!(
        "an index is a whole number, a slice, ..., None, or a tensor of whole numbers or bools, not {class}"
    ))
}

fn whole(key: &Bound<'_, PyAny>) -> PyResult<i64> {
    let index = key.call_method0("__index__")?;
    index.extract().map_err(|_| PyIndexError::new_err(format!("index {index} is out of range")))
}

/// A bound of a slice: beyond what can be counted it is as good as the end.
fn clamped(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let index = value.call_method0("__index__")?;
    match index.extract() {
        Ok(index) => Ok(index),
        Err(_) if index.lt(0)? => Ok(-(i64::MAX / 2)),
        Err(_) => Ok(i64::MAX / 2),
    }
}

/// The elements that `key` names.
pub fn get(py: Python<'_>, x: &Tensor, key: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let mut items: Vec<Item> = match key.cast::<PyTuple>() {
        Ok(keys) => keys.iter().map(|k| Item::of(&k)).collect::<PyResult<_>>()?,
        Err(_) => vec![Item::of(key)?],
    };
    let used: usize = items.iter().map(Item::axes).sum();
    if used > x.ndim() {
        let text = format!("{used} indices for a tensor of {} dimensions", x.ndim());
        return Err(PyIndexError::new_err(text));
    }
    let rests = items.iter().filter(|item| matches!(item, Item::Rest)).count();
    if rests > 1 {
        return Err(PyIndexError::new_err("an index has at most one ellipsis"));
    }
    if rests == 0 {
        items.push(Item::Rest);
    }
    let advanced = items.iter().any(|item| matches!(item, Item::Pick(_) | Item::Mask(_)));
    let mut picks: Vec<(usize, Tensor)> = Vec::new();
    // Whether an ellipsis, of no axes perhaps, stands between two of them.
    let (mut after, mut apart) = (false, false);
    let (mut y, mut axis, mut from) = (x.clone(), 0usize, 0usize);
    for item in items {
        if matches!(item, Item::Pick(_)) || (advanced && matches!(item, Item::At(_))) {
            apart |= after;
        }
        if matches!(&item, Item::Mask(mask) if mask.ndim() > 0) {
            apart |= after;
        }
        match item {
            Item::Rest => {
                after = !picks.is_empty();
                let rest = x.ndim() - used;
                axis += rest;
                from += rest;
            }
            Item::New => {
                y = extensor::ops::expand_dims(&y, axis).or_raise()?;
                axis += 1;
            }
            Item::Range(start, stop, step) => {
                if (start, stop, step) != (None, None, 1) {
                    y = extensor::ops::slice(&y, axis as i64, start, stop, step).or_raise()?;
                }
                axis += 1;
                from += 1;
            }
            Item::At(index) if advanced => {
                picks.push((axis, Tensor::scalar(index)));
                axis += 1;
                from += 1;
            }
            Item::At(index) => {
                let size = x.shape()[from];
                let at = if index < 0 { index + size as i64 } else { index };
                if at < 0 || at >= size as i64 {
                    let text =
                        format!("index {index} is out of range for axis {from} of size {size}");
                    return Err(PyIndexError::new_err(text));
                }
                let one =
                    extensor::ops::slice(&y, axis as i64, Some(at), Some(at + 1), 1).or_raise()?;
                y = extensor::ops::squeeze(&one, axis).or_raise()?;
                from += 1;
            }
            Item::Pick(index) => {
                picks.push((axis, extensor::ops::cast(&index, DType::I64).or_raise()?));
                axis += 1;
                from += 1;
            }
            Item::Mask(mask) if mask.ndim() == 0 => {
                // A new axis of size 1 or 0.
                y = extensor::ops::expand_dims(&y, axis).or_raise()?;
                let chosen = i64::from(mask.item::<bool>().or_raise()?);
                y = extensor::ops::slice(&y, axis as i64, Some(0), Some(chosen), 1).or_raise()?;
                axis += 1;
            }
            Item::Mask(mask) => {
                for (k, &size) in mask.shape().iter().enumerate() {
                    // An empty mask picks nothing, whatever the size.
                    if size != 0 && size != x.shape()[from + k] {
                        return Err(PyIndexError::new_err(format!(
                            "a mask of shape {} does not fit axes {from} to {} of shape {}",
                            mask.shape(),
                            from + mask.ndim() - 1,
                            x.shape()
                        )));
                    }
                }
                for (k, index) in extensor::ops::nonzero(&mask).or_raise()?.into_iter().enumerate()
                {
                    picks.push((axis + k, index));
                }
                axis += mask.ndim();
                from += mask.ndim();
            }
        }
    }
    if picks.is_empty() {
        return Ok(y);
    }
    crate::function::compute(py, usize::MAX, || pick(&y, picks, apart))
}

/// The elements at tensors of indices along several axes.
fn pick(x: &Tensor, picks: Vec<(usize, Tensor)>, apart: bool) -> extensor::Result<Tensor> {
    let axes: Vec<usize> = picks.iter().map(|(axis, _)| *axis).collect();
    let adjacent = !apart && axes.windows(2).all(|w| w[1] == w[0] + 1);
    // The axes that are picked from, side by side: where they are, or in front.
    let place = if adjacent { axes[0] } else { 0 };
    let others = (0..x.ndim()).filter(|k| !axes.contains(k));
    let mut order: Vec<i64> = others.map(|k| k as i64).collect();
    order.splice(place..place, axes.iter().map(|&k| k as i64));
    let moved = extensor::ops::transpose(x, &order[..])?;
    let sizes: Vec<usize> = axes.iter().map(|&k| x.shape()[k]).collect();
    let mut shape: Vec<i64> = moved.shape().iter().map(|&n| n as i64).collect();
    // (Of a tensor without elements the sizes may be anything.)
    let joined = sizes.iter().try_fold(1i64, |product, &n| product.checked_mul(n as i64));
    let Some(joined) = joined else {
        return Err(extensor::Error::Overflow { op: "index", shape: x.shape().clone() });
    };
    shape.splice(place..place + axes.len(), [joined]);
    let flat = extensor::ops::reshape(&moved, &shape)?;
    // The index into the joined axis, every one checked.
    let mut linear: Option<Tensor> = None;
    for ((axis, index), &size) in picks.iter().zip(&sizes) {
        let index = wrapped(index, *axis, size)?;
        linear = Some(match linear {
            None => index,
            Some(before) => {
                let scaled = extensor::ops::multiply(&before, &Tensor::scalar(size as i64))?;
                extensor::ops::add(&scaled, &index)?
            }
        });
    }
    let Some(linear) = linear else {
        return Ok(flat);
    };
    extensor::ops::take(&flat, &linear, place as i64)
}

/// The indices, those below 0 counted from the end.
pub fn wrapped(index: &Tensor, axis: usize, size: usize) -> extensor::Result<Tensor> {
    let n = size as i64;
    if index.is_recorded() || index.is_mapped() {
        // Taken from the numbers of the axis, which finds those outside of it without looking at them
        // here.
        let below = extensor::ops::less(index, &Tensor::scalar(0i64))?;
        let shifted = extensor::ops::add(index, &Tensor::scalar(n))?;
        let at = extensor::ops::where_(&below, &shifted, index)?;
        return extensor::ops::take(&Tensor::whole_numbers("index", size, |i| i as i64)?, &at, 0);
    }
    let mut values: Vec<i64> = index.to_vec()?;
    for value in &mut values {
        let at = if *value < 0 { *value + n } else { *value };
        if at < 0 || at >= n {
            return Err(extensor::Error::IndexOutOfRange {
                op: "index",
                index: *value,
                axis,
                size,
            });
        }
        *value = at;
    }
    Tensor::from_vec(values, index.shape().clone())
}

/// Indices along an axis of a size, those below 0 counted from the end.
#[pyfunction]
pub fn wrap_index(index: &PyTensor, axis: usize, size: usize) -> PyResult<PyTensor> {
    if !index.0.dtype().is_int() {
        return Err(PyTypeError::new_err("indices are whole numbers"));
    }
    let wide = extensor::ops::cast(&index.0, DType::I64).or_raise()?;
    wrapped(&wide, axis, size).or_raise().map(PyTensor)
}
