//! Networks: layers, how their parameters begin, and models made of them.
//!
//! A layer is a plain struct of tensors, a [`Tree`], with a pure `forward`; nothing here knows
//! optimisers, data, or how a gradient is taken.
//!
//! ```
//! use extensor::autodiff::{named_leaves, value_and_grad};
//! use extensor::nn::{Mode, Model, models::Mlp};
//! use extensor::ops::{Reduce, cross_entropy};
//! use extensor::{DType, Key, tensor};
//!
//! let [a, b] = Key::new(1).split();
//! let model = Mlp::new(a, &[4, 8, 3])?;
//! let x = b.normal([5, 4], DType::F32)?;
//! let labels = tensor([0i64, 1, 2, 1, 0]);
//! let (loss, grads) = value_and_grad(
//!     |model: &Mlp| {
//!         let logits = model.forward(&x, &Mode::Training(Key::new(2)))?.logits;
//!         cross_entropy(&logits, &labels, Reduce::Mean)
//!     },
//!     &model,
//! )?;
//! assert!(loss.item::<f32>()? > 0.0);
//! assert_eq!(named_leaves(&grads)[0].0, "layers.0.weight");
//! # Ok::<(), extensor::Error>(())
//! ```

mod attention;
mod builder;
mod conv;
pub mod init;
mod linear;
pub mod models;
mod module;
mod norm;
mod sequential;
mod simple;
mod summary;

pub use attention::MultiHeadAttention;
pub use builder::Builder;
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use linear::{Embedding, Linear};
pub use module::Module;
pub use norm::{BatchNorm2d, GroupNorm, LayerNorm, RMSNorm};
pub use sequential::{Layer, Sequential};
pub use simple::{
    Activation, AdaptiveAvgPool, AvgPool1d, AvgPool2d, AvgPool3d, Dropout, Flatten, Function,
    GlobalAvgPool, MaxPool1d, MaxPool2d, MaxPool3d, Upsample,
};
pub use summary::{Summary, summary};

use crate::autodiff::{Item, Path};
use crate::ops::{CrossEntropyOptions, Reduce};
use crate::{Key, Result, Tensor, Tree, ops};

/// What a network is computed for: the only thing that makes layers such as dropout and batch
/// normalisation behave in one way or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To be used: nothing is random, running statistics are used and stay.
    Inference,
    /// To be trained, with random numbers from this key: use another one for each step.
    Training(Key),
}

impl Mode {
    /// The mode of part number `index`, with random numbers of its own.
    ///
    /// ```
    /// use extensor::{Key, nn::Mode};
    /// let mode = Mode::Training(Key::new(1));
    /// assert_ne!(mode.split(0), mode.split(1));
    /// assert_eq!(Mode::Inference.split(0), Mode::Inference);
    /// ```
    pub fn split(&self, index: u64) -> Mode {
        match self {
            Mode::Inference => Mode::Inference,
            Mode::Training(key) => Mode::Training(key.fold_in(index)),
        }
    }

    /// Whether the network is being trained.
    pub fn is_training(&self) -> bool {
        matches!(self, Mode::Training(_))
    }
}

/// A tree without leaves; the key is taken anew at each call of a compiled function.
impl Tree for Mode {
    fn visit<'a>(
        &'a self,
        _: &Path<'_>,
        _: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        Ok(())
    }
    fn map(
        &self,
        _: &Path<'_>,
        _: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        Ok(*self)
    }
    fn visit_mut(
        &mut self,
        _: &Path<'_>,
        _: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        Ok(())
    }
    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        let name = if self.is_training() { "Training" } else { "Inference" };
        f(path, Item::Node(name));
    }
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        if let Mode::Training(key) = self {
            key.numbers(f);
        }
    }
    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        match self {
            Mode::Training(key) => key.set_numbers(f),
            Mode::Inference => Ok(()),
        }
    }
}

/// A whole network.
pub trait Model: Tree + Clone + Send + Sync {
    /// What the network says about a batch, first axis first, and the network with new running
    /// statistics where it has some.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Output<Self>>;
}

/// What a [`Model`] returns.
#[derive(Tree, Clone, Debug)]
pub struct Output<M> {
    /// The result: for a classifier, the logarithms of probabilities up to a common summand.
    pub logits: Tensor,
    /// The model with the running statistics that belong to the next step, if it has any and was
    /// called in [`Mode::Training`]; its parameters are the same.
    pub model: Option<M>,
}

impl<M> Output<M> {
    /// The result of a model without running statistics.
    pub fn stateless(logits: Tensor) -> Output<M> {
        Output { logits, model: None }
    }

    /// The loss of the result, beside the model with new running statistics: what
    /// [`Trainer::step`](crate::train::Trainer::step) takes.
    ///
    /// ```
    /// use extensor::nn::{Sequential, class_loss};
    /// use extensor::{optim::AdamW, prelude::*, train::Trainer};
    /// let [a, b] = Key::new(1).split();
    /// let model = Sequential::builder(a).conv2d(1, 4, 3).batch_norm2d(4).flatten().linear(16, 2).build()?;
    /// let (x, labels) = (b.normal([8, 1, 4, 4], DType::F32)?, tensor([0i64, 1, 0, 1, 0, 1, 0, 1]));
    /// let mut trainer = Trainer::new(model, AdamW::new(0.01))?;
    /// let first = trainer.step(|model, mode| model.forward(&x, mode)?.loss(|y| class_loss(y, &labels, 0.0)))?;
    /// assert!(first > 0.0);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn loss(self, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<(Tensor, Option<M>)> {
        Ok((f(&self.logits)?, self.model))
    }
}

/// The mean [`cross_entropy`](crate::ops::cross_entropy) of classes, for logits `[…, classes]` and targets
/// `[…]` of a whole-number dtype with any axes before: what classifiers and language models minimise.
///
/// ```
/// use extensor::{DType, Tensor, nn::class_loss};
/// let (logits, targets) = (Tensor::zeros([2, 3, 5], DType::F64)?, Tensor::zeros([2, 3], DType::I64)?);
/// assert!((class_loss(&logits, &targets, 0.0)?.item::<f64>()? - 5f64.ln()).abs() < 1e-15);
/// # Ok::<(), extensor::Error>(())
/// ```
#[track_caller]
pub fn class_loss(logits: &Tensor, targets: &Tensor, label_smoothing: f64) -> Result<Tensor> {
    let reduce = Reduce::Mean;
    match logits.shape()[..] {
        [.., classes]
            if logits.ndim() > 2 && logits.shape()[..logits.ndim() - 1] == targets.shape()[..] =>
        {
            // Not -1, which says nothing of an empty batch.
            let logits = ops::reshape(logits, [targets.len(), classes])?;
            let targets = ops::reshape(targets, [targets.len()])?;
            ops::cross_entropy(
                &logits,
                &targets,
                CrossEntropyOptions::new().label_smoothing(label_smoothing).reduction(reduce),
            )
        }
        _ => ops::cross_entropy(
            logits,
            targets,
            CrossEntropyOptions::new().label_smoothing(label_smoothing).reduction(reduce),
        ),
    }
}

/// An error that says which parameter of which layer is not allowed.
fn bad<T>(
    op: &'static str,
    parameter: &'static str,
    expected: impl Into<String>,
    got: impl std::fmt::Display,
) -> Result<T> {
    let (expected, got) = (expected.into(), got.to_string());
    Err(crate::Error::Parameter { op, parameter, expected, got })
}
