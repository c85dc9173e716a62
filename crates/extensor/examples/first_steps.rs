//! The README's first example.
//!
//! ```text
//! cargo run --release -p extensor --example first_steps
//! ```

use extensor::ops::{matmul, matmul_backward, mean, mean_backward, square, square_backward};
use extensor::{DType, Key, Result, tensor};

fn main() -> Result<()> {
    // A tensor is an immutable value; a view costs nothing.
    let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let w = Key::new(7).normal([3, 2], DType::F64)?;

    // Every operation is a pure function ...
    let y = matmul(&x, &w)?;
    let loss = mean(&square(&y)?, None)?;
    println!("y =\n{y}\nloss = {loss}");

    // ... with an explicit backward function beside it.
    let grad_square = mean_backward(&tensor(1.0), y.shape(), None)?;
    let grad_y = square_backward(&grad_square, &y)?;
    let (_, grad_w) = matmul_backward(&grad_y, &x, &w)?;
    println!("gradient of the loss for w =\n{grad_w}");
    Ok(())
}
