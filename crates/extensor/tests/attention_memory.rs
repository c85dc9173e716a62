//! What attention over a long sequence takes in memory, in a process of its own.

#![cfg(target_os = "linux")]

use extensor::ops::AttentionOptions;
use extensor::ops::{
    scaled_dot_product_attention_backward as backward,
    scaled_dot_product_attention_with_logsumexp as forward,
};
use extensor::{DType, Key, Tensor};

/// A figure of `/proc/self/status`, in bytes.
fn status(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn sixteen_thousand_queries_and_keys_take_less_than_half_a_gibibyte_forward_and_backward() {
    let length: usize =
        std::env::var("EXTENSOR_ATTENTION_LENGTH").map_or(16384, |v| v.parse().unwrap());
    let [q, k, v, g]: [Tensor; 4] =
        [0, 1, 2, 3].map(|i| Key::new(i).normal([length, 64], DType::F32).unwrap());
    let before = status("VmRSS");
    let started = std::time::Instant::now();
    let (y, logsumexp) = forward(&q, &k, &v, AttentionOptions::new()).unwrap();
    let forward_time = started.elapsed();
    let grads = backward(&g, [&q, &k, &v], [&y, &logsumexp], AttentionOptions::new()).unwrap();
    let took = status("VmHWM").saturating_sub(before);
    let (mib, times) = (took as f64 / f64::from(1 << 20), (forward_time, started.elapsed()));
    println!("{length} queries: {mib:.1} MiB more; forward, and both: {times:?}");
    assert!(grads.0.to_f64_vec().iter().all(|v| v.is_finite()));
    // The matrix of weights alone would be 1024 MiB.
    assert!(took < 512 << 20, "{mib} MiB");
}
