//! Random tensors from keys.

use extensor::threads::with as with_threads;
use extensor::{DType, Key, Tensor};

#[test]
fn a_key_gives_the_same_numbers_for_any_number_of_threads_and_prefix() {
    let key = Key::new(3);
    let one = with_threads(1, || key.normal([100_001], DType::F64)).unwrap();
    let four = with_threads(4, || key.normal([100_001], DType::F64)).unwrap();
    let short = key.normal([7], DType::F64).unwrap();
    assert_eq!(one.to_f64_vec(), four.to_f64_vec());
    assert_eq!(one.to_f64_vec()[..7], short.to_f64_vec());
}

#[test]
fn the_moments_are_those_of_the_distribution() {
    let n = 1_000_000;
    let moments = |x: &Tensor| {
        let v = x.to_f64_vec();
        let mean = v.iter().sum::<f64>() / n as f64;
        let var = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        let fourth = v.iter().map(|x| (x - mean).powi(4)).sum::<f64>() / n as f64;
        (mean, var, fourth / var / var)
    };
    let (mean, var, kurtosis) = moments(&Key::new(1).normal([n], DType::F32).unwrap());
    assert!(mean.abs() < 5e-3 && (var - 1.0).abs() < 7e-3 && (kurtosis - 3.0).abs() < 0.03);
    let (mean, var, kurtosis) = moments(&Key::new(2).uniform([n], 0.0, 1.0, DType::F32).unwrap());
    assert!(
        (mean - 0.5).abs() < 2e-3
            && (var - 1.0 / 12.0).abs() < 5e-4
            && (kurtosis - 1.8).abs() < 0.01
    );
}

#[test]
fn the_upper_end_is_never_reached_in_any_dtype() {
    for dtype in DType::FLOATS {
        let x = Key::new(9).uniform([100_000], -1.0, 1.0, dtype).unwrap().to_f64_vec();
        assert!(x.iter().all(|&v| (-1.0..1.0).contains(&v)), "{dtype}");
    }
    assert!(Key::new(9).uniform([1], 1.0, 0.0, DType::F32).is_err());
    assert!(Key::new(9).uniform([1], 0.0, 1.0, DType::I32).is_err());
}

#[test]
fn derived_keys_differ_from_each_other_and_from_their_parent() {
    let mut keys: std::collections::HashSet<Key> =
        (0..1000).map(|i| Key::new(5).fold_in(i)).collect();
    keys.insert(Key::new(5));
    assert_eq!(keys.len(), 1001);
}
