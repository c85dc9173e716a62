//! What ranks are worth if each keeps its batch: a training step of one rank beside that of all.

use crate::all_reduce::{summary, timed};
use crate::training;
use extensor::distributed::Group;
use extensor::nn::{Model, class_loss};
use extensor::optim::{Adam, AdamW, Optimizer};
use extensor::prelude::Trainer;
use extensor::{Result, Tensor};

/// Steps in one turn.
const STEPS: usize = 10;

/// Prints, on rank 0, what steps of one rank and of all ranks of an mpirun take, interleaved.
pub fn compare(threads: usize, turns: usize) -> Result<()> {
    let group = Group::mpi()?;
    extensor::threads::set(threads);
    if group.is_first() {
        println!("a training step, {threads} threads a rank: ms, least and median of {turns}");
        let all = format!("{} ranks", group.size());
        let columns = ["1 rank", &all, "share of linear", "each its own", "in step"];
        println!("{:8}{}", "", columns.map(|title| format!("{title:>19}")).concat());
    }
    let (model, data) = training::cnn_parts();
    one(&group, "cnn", model, data, Adam::new(1e-3), turns)?;
    let (model, data) = training::gpt_parts();
    one(&group, "gpt", model, data, AdamW::new(1e-3), turns)
}

fn one<M: Model + 'static>(
    group: &Group,
    name: &str,
    model: M,
    (x, targets): (Tensor, Tensor),
    optimizer: impl Optimizer<M> + Clone,
    turns: usize,
) -> Result<()> {
    let loss = |model: &M, mode: &extensor::nn::Mode| {
        let output = model.forward(&x, mode)?;
        Ok((class_loss(&output.logits, &targets, 0.0)?, output.model))
    };
    let mut by_itself = Trainer::new(model.clone(), optimizer.clone())?;
    let mut together = Trainer::new(model, optimizer)?.group(group);
    let mut times: [Vec<f64>; 4] = Default::default();
    for turn in 0..=turns {
        // One rank at work on a machine that is its own; all that make steps together; and what the machine
        // itself gives to so many: steps that have nothing to do with each other, and such that begin together.
        let found = [
            steps(group, group.is_first(), || by_itself.step(loss).map(drop))?,
            steps(group, true, || together.step(loss).map(drop))?,
            steps(group, true, || by_itself.step(loss).map(drop))?,
            steps(group, true, || by_itself.step(loss).and_then(|_| group.barrier()))?,
        ];
        // The first turn warms memory up.
        if turn > 0 {
            times.iter_mut().zip(found).for_each(|(times, found)| times.push(found));
        }
    }
    let [single, all, apart, in_step] = times.map(summary);
    if group.is_first() {
        let share = (single.0 / all.0, single.1 / all.1);
        let cells = [single, all, share, apart, in_step];
        println!("{name:>8}{}", cells.map(|(a, b)| format!("{a:>10.3}{b:>9.3}")).concat());
    }
    Ok(())
}

/// Milliseconds for each of some steps, made by the ranks that work.
fn steps(group: &Group, works: bool, mut step: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut all = || if works { (0..STEPS).try_for_each(|_| step()) } else { Ok(()) };
    Ok(timed(group, &mut all)? / STEPS as f64)
}
