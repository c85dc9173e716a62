//! What differentiating takes in memory, in a process of its own.

#![cfg(target_os = "linux")]

use extensor::autodiff::{checkpoint_sequential, grad, value_and_grad, zip_map};
use extensor::ops::{linear, mean, relu, square, subtract};
use extensor::{DType, Key, Result, Tensor};

/// A figure of `/proc/self/status`, in bytes.
fn status(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

fn layer(w: &Tensor, x: &Tensor) -> Result<Tensor> {
    relu(&linear(x, w, None)?)
}

fn steps(count: usize) -> Result<usize> {
    let [a, b, c] = Key::new(1).split();
    let mut model = vec![a.normal([16, 8], DType::F32)?, b.normal([4, 16], DType::F32)?];
    let x = c.normal([32, 8], DType::F32)?;
    let rate = Tensor::scalar(1e-2f32);
    for _ in 0..count {
        let loss = |model: &Vec<Tensor>| {
            let y = model.iter().try_fold(x.clone(), |x, w| layer(w, &x))?;
            mean(&square(&y)?, ..)
        };
        let (_, grads) = value_and_grad(loss, &model)?;
        model = zip_map(&model, &grads, |w, g| subtract(w, &(g * &rate)))?;
    }
    Ok(status("VmRSS"))
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn memory_is_flat_over_steps_and_checkpoints_save_it() -> Result<()> {
    let after_a_hundred = steps(100)?;
    let after_many = steps(9_900)?;
    let grown = after_many.saturating_sub(after_a_hundred);
    assert!(grown < 1 << 20, "{grown} bytes in 9,900 steps");

    // 64 layers of width 128 over a batch of 4096: 2 MiB each, before and after the ReLU.
    let keys: [Key; 64] = Key::new(2).split();
    let layers = keys.map(|key| {
        let w = key.uniform([128, 128], -0.1, 0.15, DType::F32);
        w.unwrap_or_else(|error| panic!("{error}"))
    });
    let layers = layers.to_vec();
    let x = Key::new(3).normal([4096, 128], DType::F32)?;
    let before = status("VmRSS");
    let saved =
        grad(|l: &Vec<Tensor>| mean(&checkpoint_sequential(layer, l, &x, None)?, ..), &layers)?;
    let checkpointed = status("VmHWM") - before;
    let plain = grad(
        |l: &Vec<Tensor>| mean(&l.iter().try_fold(x.clone(), |x, w| layer(w, &x))?, ..),
        &layers,
    )?;
    let whole = status("VmHWM") - before;
    for (a, b) in saved.iter().zip(&plain) {
        assert_eq!(a.to_vec::<f32>()?, b.to_vec::<f32>()?);
    }
    println!("{} MiB with checkpoints, {} MiB without", checkpointed >> 20, whole >> 20);
    assert!(4 * checkpointed <= whole, "{checkpointed} of {whole} bytes");
    Ok(())
}
