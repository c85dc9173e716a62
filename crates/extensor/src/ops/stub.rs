//! Temporary stand-ins, replaced by the families' own files.
#![allow(missing_docs)]
use crate::tensor::unravel;
use crate::{Axes, DType, Result, Shape, Tensor};

fn of(values: Vec<f64>, shape: &Shape, dtype: DType) -> Result<Tensor> {
    Tensor::generate("sum", shape.clone(), dtype, |i| values[i])
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
