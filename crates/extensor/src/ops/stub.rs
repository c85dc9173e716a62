//! Temporary stand-ins, replaced by the families' own files.
#![allow(missing_docs)]
use crate::{DType, Error, Integers, Result, Shape, Tensor};

fn of(values: Vec<f64>, shape: &Shape, dtype: DType) -> Result<Tensor> {
    Tensor::generate("cast", shape.clone(), dtype, |i| values[i])
}
pub fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype {
        return Ok(x.clone());
    }
    of(x.to_f64_vec(), x.shape(), dtype)
}
pub fn reshape(x: &Tensor, shape: impl Integers) -> Result<Tensor> {
    let shape: Shape = shape.integers().iter().map(|&v| v as usize).collect();
    match x.layout().reshaped(&shape) {
        Some(layout) => Ok(x.with_layout(layout)),
        None => reshape(&x.contiguous()?, &shape),
    }
}
pub fn broadcast_to(x: &Tensor, shape: impl Integers) -> Result<Tensor> {
    let shape: Shape = shape.integers().iter().map(|&v| v as usize).collect();
    let layout = x
        .layout()
        .broadcast(&shape)
        .ok_or_else(|| Error::Broadcast {
            op: "broadcast_to",
            a: x.shape().clone(),
            b: shape.clone(),
        })?;
    Ok(x.with_layout(layout))
}
pub fn transpose(x: &Tensor, axes: Option<&[i64]>) -> Result<Tensor> {
    let n = x.ndim();
    let perm: Vec<usize> = axes.map_or_else(
        || (0..n).rev().collect(),
        |a| a.iter().map(|&v| v as usize).collect(),
    );
    let mut layout = x.layout().clone();
    layout.shape = perm.iter().map(|&i| x.shape()[i]).collect();
    layout.strides = perm.iter().map(|&i| x.strides()[i]).collect();
    Ok(x.with_layout(layout))
}
