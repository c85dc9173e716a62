//! What is compared.

use extensor::{DType, Tensor, ops};

/// An error unless both are the same, but for rounding of sums in another order.
pub fn close(what: &str, got: &Tensor, want: &Tensor) -> Result<(), String> {
    if got.shape() != want.shape() || got.dtype() != want.dtype() {
        let (a, b) = (got.shape(), want.shape());
        return Err(format!("{what}: {}{a}, expected {}{b}", got.dtype(), want.dtype()));
    }
    let tolerance = match got.dtype() {
        DType::F64 => 1e-11,
        DType::F32 => 2e-5,
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        _ => 0.0,
    };
    let (a, b) = (got.to_f64_vec(), want.to_f64_vec());
    // What should be 0 is what sums of such numbers leave.
    let largest = b.iter().filter(|v| v.is_finite()).fold(1e-2f64, |m, v| m.max(v.abs()));
    for (i, (&a, &b)) in a.iter().zip(&b).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan());
        let near = (a - b).abs() <= tolerance * largest;
        if !same && !near {
            return Err(format!("{what}: element {i} is {a:e}, expected {b:e}"));
        }
    }
    Ok(())
}

/// Example number `i` of a batch.
pub fn nth(x: &Tensor, i: usize) -> Tensor {
    let one = ops::slice(x, 0, i as i64, i as i64 + 1, 1).unwrap();
    ops::reshape(&one, &x.shape()[1..]).unwrap()
}
