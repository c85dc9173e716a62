//! Temporary stand-ins, replaced by the families' own files.
#![allow(missing_docs)]
use crate::tensor::unravel;
use crate::{Axes, DType, Error, Integers, Result, Shape, Tensor};

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
pub fn sum(x: &Tensor, axes: impl Into<Axes>, keepdims: bool) -> Result<Tensor> {
    let mask = axes.into().mask("sum", x.ndim())?;
    let kept: Shape = x
        .shape()
        .iter()
        .zip(&mask)
        .map(|(&s, &m)| if m { 1 } else { s })
        .collect();
    let strides = kept.strides();
    let mut out = vec![0.0; kept.iter().product()];
    for (i, v) in x.to_f64_vec().into_iter().enumerate() {
        let at: usize = unravel(i, x.shape())
            .iter()
            .zip(&strides)
            .zip(&mask)
            .map(|((&i, &s), &m)| if m { 0 } else { i * s as usize })
            .sum();
        out[at] += v;
    }
    let shape: Shape = if keepdims {
        kept
    } else {
        x.shape()
            .iter()
            .zip(&mask)
            .filter(|(_, m)| !**m)
            .map(|(&s, _)| s)
            .collect()
    };
    of(out, &shape, x.dtype())
}
pub fn any(x: &Tensor, _: impl Into<Axes>, _: bool) -> Result<Tensor> {
    Ok(Tensor::scalar(x.to_f64_vec().iter().any(|&v| v != 0.0)))
}
