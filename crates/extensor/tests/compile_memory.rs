//! What compiled functions take in memory, in a process of their own.

use extensor::autodiff::value_and_grad;
use extensor::compile::compile;
use extensor::memory::allocations;
use extensor::nn::models::{Gpt, GptConfig};
use extensor::nn::{Mode, Model, class_loss};
use extensor::optim::{AdamW, Optimizer, State};
use extensor::{Key, Result, Tensor, tensor};

type Given = ((Gpt, State<Gpt>), Tensor, Key);

/// One test, so that nothing else allocates meanwhile.
#[test]
fn a_step_asks_the_system_for_no_memory_and_programs_that_go_give_theirs_back() -> Result<()> {
    let optimizer = AdamW::new(1e-3).clip_norm(1.0);
    let sizes = GptConfig { layers: 2, width: 64, ..GptConfig::default() };
    let model = Gpt::new(Key::new(1), sizes)?;
    let step = compile(|((model, state), tokens, key): &Given| {
        let mode = Mode::Training(*key);
        let loss = |m: &Gpt| class_loss(&m.forward(tokens, &mode)?.logits, tokens, 0.0);
        let (loss, grads) = value_and_grad(loss, model)?;
        Ok((optimizer.update(model.clone(), &grads, state.clone())?, loss))
    });
    let batch = |n: i64| {
        let letters: Vec<i64> = (0..n * 64).map(|i| i * 7 % 65).collect();
        tensor(letters.as_slice()).reshape([n, 64])
    };
    let mut run = (model.clone(), optimizer.init(&model)?);
    drop(model);
    let tokens = batch(8)?;
    let mut counted = 0;
    for k in 0..40 {
        if k == 10 {
            counted = allocations();
        }
        (run, _) = step.call_owned((run, tokens.clone(), Key::new(k)))?;
    }
    assert_eq!(allocations(), counted);

    // Programs for other shapes, of which only the last stays.
    let step = step.limit(1);
    let mut most = 0;
    for n in 1..=8 {
        (run, _) = step.call_owned((run, batch(n)?, Key::new(0)))?;
        assert_eq!(step.programs(), 1);
        most = most.max(step.memory());
    }
    assert_eq!(most, step.memory(), "the last one needs the most");
    step.clear();
    assert_eq!(step.memory(), 0);
    Ok(())
}
