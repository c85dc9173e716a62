//! What training is at between two steps, and how it is saved and loaded.
//!
//! Whatever a step reads beside the plan is here, so that a run that goes on from a checkpoint does the
//! same to the bit as one that never stopped. This module must not know how a step is made.

use crate::autodiff::map;
use crate::data::Position;
use crate::io::safetensors::{Contents, File};
use crate::optim::{Ema, Optimizer, Plateau, State as OptimizerState};
use crate::precision::LossScale;
use crate::{Error, Key, Result, Tree};
use std::collections::BTreeMap;
use std::str::FromStr;

const FORMAT: &str = "extensor checkpoint 2";
/// Before there were checksums.
const FIRST_FORMAT: &str = "extensor checkpoint 1";

/// An error unless a file is a checkpoint, whole.
pub fn expect_checkpoint(file: &File) -> Result<()> {
    let format: String = About(file.metadata()).get("format")?;
    match format.as_str() {
        FORMAT => file.expect_checksums(),
        FIRST_FORMAT => Ok(()),
        _ => {
            let (expected, got) = (format!("{FORMAT:?}"), format!("{format:?}"));
            Err(Error::Parameter { op: OP, parameter: "format", expected, got })
        }
    }
}

/// The best evaluation so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// The step after which it was made.
    pub step: u64,
    /// Its score: the higher the better.
    pub score: f64,
}

/// What training is at between two steps.
#[derive(Clone)]
pub struct State<M> {
    /// The model.
    pub model: M,
    /// What the optimiser remembers.
    pub optimizer: OptimizerState<M>,
    /// The moving average of the model, if there is to be one.
    pub average: Option<Ema<M>>,
    /// What the learning rate follows instead of a schedule, if there is to be one: it is shown the
    /// scores of evaluations, which should [rise](Plateau::rising).
    pub plateau: Option<Plateau>,
    /// The factor on the loss.
    pub scale: LossScale,
    /// Where random numbers come from.
    pub key: Key,
    /// How many steps there were, those skipped for an overflow included.
    pub step: u64,
    /// The batch that comes next.
    pub position: Position,
    /// The best evaluation so far.
    pub best: Option<Best>,
    /// How many evaluations there were since the best.
    pub stale: u64,
    /// How many steps were skipped for an overflow.
    pub overflows: u64,
    /// Whether training was interrupted before the evaluation that belongs to this step was over.
    pub due: bool,
}

impl<M: Tree + Clone> State<M> {
    /// The state before the first step.
    pub fn new(model: M, optimizer: &(impl Optimizer<M> + ?Sized), key: Key) -> Result<State<M>> {
        Ok(State {
            optimizer: optimizer.init(&model)?,
            model,
            average: None,
            plateau: None,
            scale: LossScale::NONE,
            key,
            step: 0,
            position: Position::default(),
            best: None,
            stale: 0,
            overflows: 0,
            due: false,
        })
    }

    /// With a factor on the loss.
    pub fn scale(self, scale: LossScale) -> State<M> {
        State { scale, ..self }
    }

    /// With a moving average of the model, which is then what is evaluated.
    pub fn average(self, average: Ema<M>) -> State<M> {
        State { average: Some(average), ..self }
    }

    /// With a learning rate that is lowered when the score does not rise.
    pub fn plateau(self, plateau: Plateau) -> State<M> {
        State { plateau: Some(plateau), ..self }
    }

    /// The model that is evaluated and used: the moving average if there is one.
    pub fn result(&self) -> Result<M> {
        match &self.average {
            Some(average) => average.model(),
            None => map(&self.model, |x| Ok(x.clone())),
        }
    }

    /// What a checkpoint holds: the model under `model.`, the optimiser's state under `optimizer.`, the
    /// moving average under `average.`, and the rest as metadata.
    pub fn contents(&self) -> Contents<'_> {
        let mut contents = Contents::new()
            .with("model.", &self.model)
            .with("optimizer.", &self.optimizer)
            .metadata("format", FORMAT)
            .metadata("step", self.step)
            .metadata("epoch", self.position.epoch)
            .metadata("batch", self.position.batch)
            .metadata("key", self.key.seed())
            .metadata("stale", self.stale)
            .metadata("overflows", self.overflows)
            .metadata("optimizer_step", self.optimizer.step)
            .metadata("loss_scale", format!("{:?}", self.scale.value()))
            .metadata("loss_scale_steps", self.scale.steps());
        if let Some(average) = &self.average {
            let weight = format!("{:?}", average.start_weight);
            contents = contents.with("average.", average);
            contents = contents.metadata("average_step", average.step);
            contents = contents.metadata("average_start_weight", weight);
        }
        if let Some(plateau) = &self.plateau {
            contents = contents.metadata("plateau", plateau.state());
        }
        if let Some(best) = self.best {
            let score = format!("{:?}", best.score);
            contents = contents.metadata("best_step", best.step).metadata("best_score", score);
        }
        if self.due {
            contents = contents.metadata("evaluation_due", 1);
        }
        contents
    }

    /// The state that a checkpoint holds; `self`, a state before the first step, says what must be in
    /// it.
    pub fn load(self, file: &File) -> Result<State<M>> {
        let about = About(file.metadata());
        expect_checkpoint(file)?;
        let mut optimizer = file.under("optimizer.").into_tree(&self.optimizer)?;
        optimizer.step = about.get("optimizer_step")?;
        let average = match &self.average {
            Some(average) => {
                let mut average = file.under("average.").into_tree(average)?;
                average.step = about.get("average_step")?;
                average.start_weight = about.get("average_start_weight")?;
                Some(average)
            }
            None => None,
        };
        let plateau = match &self.plateau {
            Some(plateau) => Some(plateau.with_state(about.get::<String>("plateau")?.parse()?)),
            None => None,
        };
        let best = match about.0.contains_key("best_step") {
            true => Some(Best { step: about.get("best_step")?, score: about.get("best_score")? }),
            false => None,
        };
        let scale = self.scale.resume(about.get("loss_scale")?, about.get("loss_scale_steps")?)?;
        Ok(State {
            model: file.under("model.").into_tree(&self.model)?,
            optimizer,
            average,
            plateau,
            scale,
            key: Key::new(about.get("key")?),
            step: about.get("step")?,
            position: Position { epoch: about.get("epoch")?, batch: about.get("batch")? },
            best,
            stale: about.get("stale")?,
            overflows: about.get("overflows")?,
            due: about.0.contains_key("evaluation_due"),
        })
    }
}

const OP: &str = "checkpoint";

/// The metadata of a checkpoint.
struct About<'a>(&'a BTreeMap<String, String>);

impl About<'_> {
    fn get<T: FromStr>(&self, name: &'static str) -> Result<T> {
        let text = self.0.get(name);
        text.and_then(|text| text.parse().ok()).ok_or_else(|| Error::Parameter {
            op: OP,
            parameter: name,
            expected: format!("a {}", std::any::type_name::<T>()),
            got: text.map_or("nothing".into(), |text| format!("{text:?}")),
        })
    }
}
