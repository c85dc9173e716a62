//! How tensors look.

use extensor::{DType, Tensor, tensor};

#[test]
fn numbers_are_aligned_and_followed_by_dtype_and_shape() {
    let x = tensor([[1.0f32, -2.25], [10.5, f32::NAN]]);
    assert_eq!(x.to_string(), "[[ 1.00, -2.25],\n [10.50,   NaN]]  f32[2, 2]");
    assert_eq!(tensor(3).to_string(), "3  i32[]");
    assert_eq!(tensor([true, false]).to_string(), "[ true, false]  bool[2]");
    assert_eq!(tensor([1e-9, 1.0]).to_string(), "[1.0000e-9,  1.0000e0]  f64[2]");
    assert_eq!(format!("{:.2}", tensor([1.0, 2.0])), "[1.00, 2.00]  f64[2]");
}

#[test]
fn empty_and_large_tensors_are_short() {
    assert_eq!(Tensor::zeros([0, 3], DType::F32).unwrap().to_string(), "[]  f32[0, 3]");
    assert_eq!(Tensor::zeros([2, 0], DType::F32).unwrap().to_string(), "[]  f32[2, 0]");
    let x = Tensor::arange(0.0, 10_000.0, 1.0, DType::I64).unwrap();
    assert_eq!(x.to_string(), "[   0,    1,    2, ..., 9997, 9998, 9999]  i64[10000]");
    let x = Tensor::zeros([100, 100], DType::F32).unwrap().to_string();
    assert_eq!(x.lines().count(), 7);
    assert!(x.lines().nth(3).unwrap().contains("..."));
}

#[test]
fn a_third_dimension_is_set_off_by_a_blank_line() {
    let x = tensor([[[1, 2]], [[3, 4]]]);
    assert_eq!(x.to_string(), "[[[1, 2]],\n\n [[3, 4]]]  i32[2, 1, 2]");
}

#[test]
fn a_views_elements_are_shown_in_its_order() {
    let x = extensor::ops::transpose(&tensor([[1, 20], [3, 4]]), None).unwrap();
    assert_eq!(x.to_string(), "[[ 1,  3],\n [20,  4]]  i32[2, 2]");
    let row = extensor::ops::broadcast_to(&tensor([1.5f32]), [3]).unwrap();
    assert_eq!(row.to_string(), "[1.5, 1.5, 1.5]  f32[3]");
}

#[test]
fn a_failed_assertion_shows_a_matrix_on_lines_of_its_own() {
    let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(format!("{x:?}"), "\n[[1.0, 2.0],\n [3.0, 4.0]]  f64[2, 2]");
    assert_eq!(format!("{:?}", tensor([1.0])), "[1.0]  f64[1]");
    assert_eq!(format!("{:?}", tensor(half::f16::ONE)), "1.0  f16[]");
}

#[test]
fn infinities_and_the_largest_whole_numbers_are_shown_in_full() {
    let x = tensor([f64::INFINITY, f64::NEG_INFINITY, 0.5]);
    assert_eq!(x.to_string(), "[ inf, -inf,  0.5]  f64[3]");
    let x = tensor([u64::MAX, 0]);
    assert_eq!(x.to_string(), "[18446744073709551615,                    0]  u64[2]");
    assert_eq!(tensor(i64::MIN).to_string(), "-9223372036854775808  i64[]");
}

#[test]
fn tensors_of_any_size_and_number_of_axes_are_short() {
    let shown =
        |shape: &[usize]| extensor::ops::broadcast_to(&tensor(1.0f32), shape).unwrap().to_string();
    assert_eq!(
        Tensor::zeros([1 << 40, 0], DType::F32).unwrap().to_string(),
        "[]  f32[1099511627776, 0]"
    );
    assert_eq!(shown(&[1 << 40]), "[1.0, 1.0, 1.0, ..., 1.0, 1.0, 1.0]  f32[1099511627776]");
    for shape in [vec![2; 59], vec![6; 20], vec![3; 30], vec![1; 100_000], vec![1 << 20; 2]] {
        let text = shown(&shape);
        assert!(text.len() < 1_000_000 && text.contains("..."), "{} letters", text.len());
    }
    assert!(shown(&[1; 50]).starts_with("[[[[") && shown(&[1; 50]).contains("1.0"));
}
