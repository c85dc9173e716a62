//! Comparing tensors.

use extensor::ops::transpose;
use extensor::{DType, Difference, Tensor, Tolerance, tensor};

#[test]
fn a_tolerance_is_relative_to_what_is_wanted_plus_absolute() {
    let tolerance = Tolerance::new(0.1, 1.0);
    assert!(tolerance.allows(12.0, 10.0) && !tolerance.allows(12.1, 10.0));
    assert!(tolerance.allows(f64::NAN, f64::NAN) && !tolerance.allows(f64::NAN, 1.0));
    assert!(tolerance.allows(f64::INFINITY, f64::INFINITY));
    assert!(!tolerance.allows(f64::INFINITY, f64::NEG_INFINITY));
    assert!(!tolerance.allows(f64::INFINITY, 1.0));
    assert!(Tolerance::EXACT.allows(0.0, -0.0));
}

#[test]
fn a_difference_says_where_it_is_worst_and_by_how_much() {
    let (x, y) = (tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0, 2.5], [3.0, 8.0]]));
    let difference = x.difference(&y, Tolerance::new(0.0, 0.25)).unwrap();
    assert_eq!(
        difference.to_string(),
        "2 of 4 elements differ, the worst at [1, 1]: 4.0 is not 8.0 (apart by 4.000e0, allowed 2.500e-1)"
    );
    assert!(!x.allclose(&y, Tolerance::of(DType::F64)));
    assert!(x.allclose(&y, Tolerance::new(0.5, 0.0)));
    assert!(x.allclose(&x.clone(), Tolerance::EXACT));
}

#[test]
fn shapes_and_dtypes_must_be_the_same() {
    let x = tensor([1.0, 2.0]);
    let shape = x.difference(&tensor([[1.0, 2.0]]), Tolerance::new(1.0, 1.0));
    assert_eq!(shape.unwrap().to_string(), "shape [2] is not [1, 2]");
    let dtype = x.difference(&tensor([1.0f32, 2.0]), Tolerance::new(1.0, 1.0));
    assert_eq!(dtype.unwrap().to_string(), "dtype f64 is not f32");
}

#[test]
fn whole_numbers_are_compared_beyond_what_f64_holds() {
    let (a, b) = (tensor([i64::MAX, 0]), tensor([i64::MAX - 1, 0]));
    assert!(!a.allclose(&b, Tolerance::EXACT));
    let found = a.difference(&b, Tolerance::EXACT);
    assert!(matches!(found, Some(Difference::Values { count: 1, of: 2, .. })));
    assert!(tensor([u64::MAX]).allclose(&tensor([u64::MAX]), Tolerance::EXACT));
}

#[test]
fn a_nan_is_never_overlooked_and_layouts_do_not_matter() {
    let x = tensor([[1.0, f64::NAN], [0.0, 1.0]]);
    assert!(!x.allclose(&tensor([[1.0, 5.0], [0.0, 1.0]]), Tolerance::new(1.0, 1e9)));
    let turned = transpose(&x, None).unwrap();
    let want = tensor([[1.0, 0.0], [f64::NAN, 1.0]]);
    assert!(turned.allclose(&want, Tolerance::EXACT));
    let empty = Tensor::zeros([0, 2], DType::F32).unwrap();
    assert!(empty.allclose(&empty, Tolerance::EXACT));
}
