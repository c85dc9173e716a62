//! A hand-written backward pass with a term forgotten, found in one call.
//!
//! ```text
//! cargo run --release -p extensor --example check_your_own
//! ```

use extensor::check::{Options, check_gradient};
use extensor::ops::{rsqrt, square};
use extensor::{Result, Tensor, tensor};

/// `y = x / √(1 + x²)`
fn squash(x: &Tensor) -> Result<Tensor> {
    Ok(x * rsqrt(&(square(x)? + 1.0))?)
}

/// `y′ = (1 + x²)^(−1/2)`, which forgets that the root depends on `x` too.
fn squash_backward_wrong(grad_output: &Tensor, x: &Tensor) -> Result<Tensor> {
    Ok(grad_output * rsqrt(&(square(x)? + 1.0))?)
}

/// `y′ = (1 + x²)^(−3/2)`
fn squash_backward(grad_output: &Tensor, x: &Tensor) -> Result<Tensor> {
    let root = rsqrt(&(square(x)? + 1.0))?;
    Ok(grad_output * (&root * &root * &root))
}

fn main() -> Result<()> {
    let x = [tensor([[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]])];
    for (name, backward) in [
        (
            "squash, a term forgotten",
            squash_backward_wrong as fn(&Tensor, &Tensor) -> Result<Tensor>,
        ),
        ("squash", squash_backward),
    ] {
        let report = check_gradient(
            |x| squash(&x[0]),
            |grad_output, x| Ok(vec![backward(grad_output, &x[0])?]),
            &x,
            &Options::named(name),
        )?;
        println!("{report}\n");
    }
    Ok(())
}
