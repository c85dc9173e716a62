//! The README's first example.
//!
//! ```text
//! cargo run --release -p extensor --example first_steps
//! ```

use extensor::ops::{matmul_backward, mean_backward, square_backward};
use extensor::prelude::*;

fn main() -> Result<()> {
    // A tensor is an immutable value; a view costs nothing.
    let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let w = Key::new(7).normal([3, 2], DType::F64)?;

    // Every operation is a pure function, and a method ...
    let y = x.matmul(&w)?;
    let loss = y.square()?.mean(..)?;
    println!("y =\n{y}\nloss = {loss}");

    // ... with an explicit backward function beside it.
    let grad_square = mean_backward(&tensor(1.0), y.shape(), ..)?;
    let grad_y = square_backward(&grad_square, &y)?;
    let (_, grad_w) = matmul_backward(&grad_y, &x, &w)?;
    println!("gradient of the loss for w =\n{grad_w}");
    Ok(())
}
