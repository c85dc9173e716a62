//! The largest memory of a compiled step beside the eager one's, in a process of its own.

#![cfg(target_os = "linux")]

use extensor::autodiff::value_and_grad;
use extensor::compile::compile;
use extensor::nn::models::{Gpt, GptConfig};
use extensor::nn::{Mode, Model, class_loss};
use extensor::optim::{AdamW, Optimizer, State};
use extensor::{Key, Result, Tensor, tensor};

/// A figure of `/proc/self/status`, in bytes.
fn status(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

type Given = ((Gpt, State<Gpt>), Tensor);

/// One test, so that nothing else allocates meanwhile.
#[test]
fn a_compiled_gpt_step_needs_at_most_four_fifths_of_the_eager_steps_memory() -> Result<()> {
    let optimizer = AdamW::new(1e-3);
    let letters: Vec<i64> = (0..12 * 64).map(|i| i * 7 % 65).collect();
    let tokens = tensor(letters.as_slice()).reshape([12, 64])?;
    let step = |((model, state), tokens): &Given| {
        let loss = |model: &Gpt| {
            let logits = model.forward(tokens, &Mode::Training(Key::new(2)))?.logits;
            class_loss(&logits, tokens, 0.0)
        };
        let (loss, grads) = value_and_grad(loss, model)?;
        Ok((optimizer.update(model.clone(), &grads, state.clone())?, loss))
    };
    let model = Gpt::new(Key::new(1), GptConfig::default())?;
    let state = optimizer.init(&model)?;
    let first = (model, state);
    let before = status("VmRSS");

    let compiled = compile(step);
    let mut run = first.clone();
    for _ in 0..3 {
        (run, _) = compiled.call_owned((run, tokens.clone()))?;
    }
    let peak = status("VmHWM").saturating_sub(before);
    drop((compiled, run));

    let mut run = first;
    for _ in 0..3 {
        (run, _) = step(&(run, tokens.clone()))?;
    }
    let eager = status("VmHWM").saturating_sub(before);
    println!("{} kB compiled, {} kB eager", peak >> 10, eager >> 10);
    assert!(10 * peak <= 8 * eager, "{peak} of {eager} bytes");
    Ok(())
}
