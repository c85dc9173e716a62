//! Shapes and axes.

use extensor::ops::{add, sum};
use extensor::{DType, Error, Shape, Tensor};

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F32).unwrap()
}

#[test]
fn shapes_broadcast_as_numpy_says() {
    type Sizes = &'static [usize];
    let cases: [(Sizes, Sizes, Option<Sizes>); 7] = [
        (&[], &[], Some(&[])),
        (&[3, 4], &[4], Some(&[3, 4])),
        (&[3, 1, 5], &[4, 5], Some(&[3, 4, 5])),
        (&[0, 3], &[1], Some(&[0, 3])),
        (&[0], &[1, 1], Some(&[1, 0])),
        (&[2], &[3], None),
        (&[2, 0], &[2], None),
    ];
    for (a, b, want) in cases {
        for (a, b) in [(a, b), (b, a)] {
            let got = add(&zeros(a), &zeros(b)).ok();
            let shape = got.as_ref().map(|y| &y.shape()[..]);
            assert_eq!(shape, want, "{a:?} with {b:?}");
        }
    }
}

#[test]
fn shapes_too_large_to_count_are_seen() {
    assert_eq!(Shape::from([usize::MAX, 2]).checked_len(), None);
    assert_eq!(Shape::from([1 << 32, 1 << 31]).checked_len(), None);
    let empty = Shape::from([usize::MAX, usize::MAX, 0]);
    assert_eq!(empty.checked_len(), Some(0));
    assert_eq!(Shape::scalar().checked_len(), Some(1));
}

#[test]
fn axes_count_from_the_end_and_must_differ() {
    let x = zeros(&[2, 3, 4]);
    let over = |axes: &[i64]| sum(&x, axes).map(|y| y.shape().to_vec());
    assert_eq!(over(&[0, -1]), Ok(vec![3]));
    assert_eq!(over(&[]), Ok(vec![2, 3, 4]));
    assert!(matches!(over(&[3]), Err(Error::AxisOutOfRange { axis: 3, .. })));
    assert!(matches!(over(&[-4]), Err(Error::AxisOutOfRange { axis: -4, .. })));
    assert!(matches!(over(&[1, -2]), Err(Error::RepeatedAxis { axis: -2, .. })));
}

#[test]
fn a_shape_prints_as_a_list_and_equals_arrays() {
    let shape = Shape::from(vec![2, 3]);
    assert_eq!(format!("{shape} {shape:?}"), "[2, 3] [2, 3]");
    assert_eq!(shape, [2, 3]);
    assert_eq!(shape, Shape::from_iter([2, 3]));
    assert_eq!(Shape::scalar().to_string(), "[]");
}
