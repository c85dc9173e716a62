//! The multilayer perceptron.

use crate::nn::{Linear, Mode, Model, Output, bad};
use crate::{Key, Result, Tensor, Tree, ops};

/// A multilayer perceptron: linear layers with a ReLU between any two.
///
/// Its input is `[batch, …]`, whatever follows the first axis being read as one list of numbers.
///
/// ```
/// use extensor::{DType, Key, nn::{Mode, Model, models::Mlp}};
/// let [a, b] = Key::new(1).split();
/// let model = Mlp::new(a, &[784, 512, 512, 10])?;
/// let images = b.normal([2, 1, 28, 28], DType::F32)?;
/// assert_eq!(model.forward(&images, &Mode::Inference)?.logits.shape(), [2, 10]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct Mlp {
    /// The layers, from input to output.
    pub layers: Vec<Linear>,
}

impl Mlp {
    /// A network whose layers have these sizes, from the input's to the output's.
    pub fn new(key: Key, sizes: &[usize]) -> Result<Mlp> {
        if sizes.len() < 2 {
            return bad("mlp", "sizes", "at least two numbers", format!("{sizes:?}"));
        }
        let layers = sizes.windows(2).zip(0..);
        let layers = layers.map(|(pair, i)| Linear::new(key.fold_in(i), pair[0], pair[1]));
        Ok(Mlp { layers: layers.collect::<Result<_>>()? })
    }
}

impl Model for Mlp {
    fn forward(&self, x: &Tensor, _: &Mode) -> Result<Output<Mlp>> {
        let mut x = if x.ndim() > 2 { ops::flatten(x, 1, -1)? } else { x.clone() };
        for (i, layer) in self.layers.iter().enumerate() {
            if i > 0 {
                x = ops::relu(&x)?;
            }
            x = layer.forward(&x)?;
        }
        Ok(Output::stateless(x))
    }
}
