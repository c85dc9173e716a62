//! Weights and inputs that are made with the same formula here and in `tools/nn_golden.py`.

use extensor::autodiff::Path;
use extensor::ops::multiply;
use extensor::{DType, Result, Shape, Tensor, Tree, tensor};

/// Numbers from −½ to ½ that depend on the seed and on their position.
pub fn fill(seed: u32, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |i: u32| {
        let start = (i + 1).wrapping_mul(2654435761);
        let mut x = start.wrapping_add((seed + 1).wrapping_mul(2246822519));
        x ^= x >> 15;
        x = x.wrapping_mul(3266489917);
        x ^= x >> 13;
        f64::from(x) / 2f64.powi(32) - 0.5
    };
    Tensor::from_vec((0..count as u32).map(value).collect(), shape).unwrap()
}

/// An input with numbers from −1 to 1.
pub fn inputs(seed: u32, shape: &[usize]) -> Tensor {
    multiply(&fill(1000 + seed, shape), &tensor(2.0)).unwrap()
}

/// Whole numbers below `high`.
pub fn tokens(seed: u32, high: usize, shape: &[usize]) -> Tensor {
    let values = fill(1000 + seed, shape).to_vec::<f64>().unwrap();
    let values = values.into_iter().map(|x| ((x + 0.5) * high as f64).floor() as i64);
    Tensor::from_vec(values.collect(), shape).unwrap()
}

/// The tree with the parameters and statistics that the tool gives it.
pub fn filled<T: Tree>(tree: Result<T>) -> T {
    let mut seed = 0;
    let fill = &mut |path: &Path<'_>, x: &Tensor| {
        let (index, name) = (seed, path.to_string());
        seed += 1;
        if x.dtype() == DType::I64 {
            return Ok(x.clone());
        }
        let values = fill(index, x.shape()).to_vec::<f64>()?;
        let fan: usize = x.shape().iter().skip(1).product();
        let scaled = |v: f64| match x.ndim() {
            2.. => 2.0 * v / (fan as f64).sqrt(),
            _ if name.ends_with("weight") || name.ends_with("running_var") => 1.0 + v,
            _ => v,
        };
        let shape: Shape = x.shape().clone();
        Tensor::from_vec(values.into_iter().map(scaled).collect(), shape)
    };
    tree.unwrap().map(&Path::ROOT, fill).unwrap()
}
