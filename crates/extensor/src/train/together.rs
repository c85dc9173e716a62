//! What the ranks of a group decide together, so that all of them do the same. It must not know how a step
//! is made.

use super::fit::Plan;
use super::hooks::Evaluation;
use super::state::State;
use crate::autodiff::Path;
use crate::data::Loader;
use crate::distributed::Group;
use crate::io::safetensors::checksum;
use crate::{Error, Result, Tree};

/// An error that says which rank differs in what, unless all begin to train with the same.
pub(super) fn expect_alike<M: Tree>(
    group: &Group,
    plan: &Plan,
    loader: &Loader,
    state: &State<M>,
) -> Result<()> {
    if group.size() == 1 {
        return Ok(());
    }
    let State { step, position, key, scale, best, stale, due, .. } = state;
    let seed = key.seed();
    let at = format!("step {step}, {position:?}, key {seed}, {scale:?}, {best:?}, {stale}, {due}");
    let mut model = String::new();
    state.model.visit(&Path::ROOT, &mut |path, x| {
        let sum = checksum::of_bytes(&x.to_bytes()?);
        model.push_str(&format!("{path}, {} {}, checksum {sum:08x}\n", x.dtype(), x.shape()));
        Ok(())
    })?;
    group.expect_same(
        "fit",
        &[
            ("the plan", &format!("{plan:?}")),
            ("the loader", &loader.described()),
            ("what training is at", &at),
            ("the model", &model),
        ],
    )
}

/// Whether one of the ranks says so.
pub(super) fn any(group: &Group, own: bool) -> Result<bool> {
    if group.size() == 1 {
        return Ok(own);
    }
    let all = group.all_gather_numbers(&[f64::from(own)])?;
    Ok(all.concat().contains(&1.0))
}

/// Whether the first rank says so.
pub(super) fn of_first(group: &Group, own: bool) -> Result<bool> {
    any(group, own && group.is_first())
}

/// The first text, by rank, that says something, with the rank's number if there are several.
pub(super) fn first_to_say(group: &Group, own: String) -> Result<Option<String>> {
    if group.size() == 1 {
        return Ok(Some(own).filter(|text| !text.is_empty()));
    }
    let all = group.all_gather_bytes(own.as_bytes())?;
    let said = all.iter().enumerate().find(|(_, text)| !text.is_empty());
    Ok(said.map(|(rank, text)| format!("on rank {rank}: {}", String::from_utf8_lossy(text))))
}

// What is sent of an evaluation: one of these, and the score.
const NOTHING: f64 = 0.0;
const FOUND: f64 = 1.0;
const INTERRUPTED: f64 = 2.0;

/// What the first rank found when it evaluated, and whether that was interrupted, on all ranks. The names of
/// what was measured do not travel: only the first rank has the metrics.
pub(super) fn evaluation_of_first(
    group: &Group,
    own: Result<Option<Evaluation>>,
) -> Result<Option<Evaluation>> {
    if group.size() == 1 {
        return own;
    }
    let said = match &own {
        Ok(None) => [NOTHING, 0.0],
        Ok(Some(found)) => [FOUND, found.score],
        Err(Error::Interrupted) => [INTERRUPTED, 0.0],
        // The others hear of it as they wait for this one.
        Err(error) => return Err(error.clone()),
    };
    let all = group.all_gather_numbers(&said)?;
    if group.is_first() {
        return own;
    }
    match all.first().map(Vec::as_slice) {
        Some([FOUND, score]) => Ok(Some(Evaluation { score: *score, metrics: Vec::new() })),
        Some([INTERRUPTED, _]) => Err(Error::Interrupted),
        _ => Ok(None),
    }
}

/// Tells the other ranks of an error that they would not find themselves.
pub(super) fn tell(group: &Group, error: &Error) {
    match error {
        // All found it together, or heard of it from another rank.
        Error::Diverged { .. } | Error::Rank { .. } => {}
        // Who tells the user is the program's question, which asks again.
        error => {
            let _ = group.fail(error);
        }
    }
}
