//! The networks of the program, as one type: chosen by name, used alike.
//!
//! The leaves of a network are those of the model in it, under the same names.

use super::config::Settings;
use super::data::Task;
use extensor::autodiff::{Item, Path};
use extensor::nn::models::{Gpt, GptConfig, LeNet5, Mlp, ResNet};
use extensor::nn::{Mode, Model, Output};
use extensor::{Key, Result, Tensor, Tree};

/// One of the networks.
#[derive(Clone, Debug)]
pub enum Network {
    /// A multilayer perceptron.
    Mlp(Mlp),
    /// LeNet-5.
    LeNet5(LeNet5),
    /// A residual network.
    ResNet(ResNet),
    /// A generative transformer.
    Gpt(Gpt),
}

macro_rules! each {
    ($self:expr, $model:ident => $made:expr) => {
        match $self {
            Network::Mlp($model) => $made,
            Network::LeNet5($model) => $made,
            Network::ResNet($model) => $made,
            Network::Gpt($model) => $made,
        }
    };
}

macro_rules! rebuilt {
    ($self:expr, $model:ident => $made:expr) => {
        match $self {
            Network::Mlp($model) => Network::Mlp($made),
            Network::LeNet5($model) => Network::LeNet5($made),
            Network::ResNet($model) => Network::ResNet($made),
            Network::Gpt($model) => Network::Gpt($made),
        }
    };
}

impl Tree for Network {
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        each!(self, model => model.visit(path, f))
    }

    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        Ok(rebuilt!(self, model => model.map(path, f)?))
    }

    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        each!(self, model => model.visit_mut(path, f))
    }

    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        each!(self, model => model.describe(path, f))
    }
}

impl Model for Network {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Output<Network>> {
        macro_rules! wrap {
            ($($name:ident)*) => {
                match self {
                    $(Network::$name(model) => {
                        let Output { logits, model } = model.forward(x, mode)?;
                        Output { logits, model: model.map(Network::$name) }
                    })*
                }
            };
        }
        Ok(wrap!(Mlp LeNet5 ResNet Gpt))
    }
}

impl Network {
    /// The network that the settings name, for a task.
    pub fn new(settings: &Settings, task: &Task, key: Key) -> std::result::Result<Network, String> {
        let name = settings.model.as_deref().unwrap_or("lenet5");
        let size = |value: Option<u64>, default: u64| value.unwrap_or(default) as usize;
        let (width, depth) = (settings.width, settings.depth);
        let made = match (name, task) {
            ("gpt", Task::Text { letters }) => {
                let width = size(width, 128);
                // Heads of 32 numbers, or of as many as there are.
                let heads =
                    (1..=width).rev().find(|h| width % h == 0 && width / h >= 32.min(width));
                let config = GptConfig {
                    vocabulary: letters.chars().count(),
                    context: size(settings.context, 64),
                    layers: size(depth, 4),
                    heads: heads.unwrap_or(1),
                    width,
                    dropout: 0.0,
                };
                Gpt::new(key, config).map(Network::Gpt)
            }
            ("mlp", Task::Images { shape, classes, .. }) => {
                mlp(key, shape.iter().product(), size(width, 512), size(depth, 2), *classes)
            }
            ("mlp", Task::Table { features, classes, .. }) => {
                mlp(key, *features, size(width, 64), size(depth, 2), *classes)
            }
            ("lenet5", Task::Images { shape, classes, .. }) => {
                LeNet5::sized(key, *shape, *classes).map(Network::LeNet5)
            }
            ("resnet", Task::Images { shape, classes, .. }) => {
                ResNet::new(key, shape[0], *classes, size(depth, 1)).map(Network::ResNet)
            }
            (name, task) => {
                return Err(format!(
                    "the model {name} does not learn {}; {}",
                    task.kind(),
                    match task {
                        Task::Text { .. } => "use --model gpt",
                        Task::Table { .. } => "use --model mlp",
                        Task::Images { .. } => "use --model lenet5, resnet or mlp",
                    }
                ));
            }
        };
        made.map_err(|error| error.to_string())
    }
}

fn mlp(key: Key, inputs: usize, width: usize, depth: usize, classes: usize) -> Result<Network> {
    let mut sizes = vec![inputs];
    sizes.extend(std::iter::repeat_n(width, depth));
    sizes.push(classes);
    Mlp::new(key, &sizes).map(Network::Mlp)
}
