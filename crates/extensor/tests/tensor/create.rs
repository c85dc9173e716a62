//! Making tensors.

use extensor::ops::{slice, transpose};
use extensor::{DType, Tensor, tensor};
use half::{bf16, f16};

#[test]
fn nested_arrays_vectors_slices_and_scalars_become_tensors_of_their_shape_and_type() {
    let x = tensor([[[1i64, 2], [3, 4]], [[5, 6], [7, 8]]]);
    assert_eq!((x.shape().to_vec(), x.dtype()), (vec![2, 2, 2], DType::I64));
    assert_eq!(x.to_vec::<i64>().unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(tensor(vec![1u8, 2]).shape(), [2]);
    assert_eq!(tensor(&[1.5f32, 2.5][..]).dtype(), DType::F32);
    assert_eq!(tensor(true).dtype(), DType::Bool);
    assert_eq!(tensor(7u16).shape(), []);
    assert_eq!(tensor([f16::ONE]).dtype(), DType::F16);
    assert_eq!(tensor([bf16::ONE]).dtype(), DType::BF16);
    assert_eq!(tensor([[0f64; 0]; 3]).shape(), [3, 0]);
    assert_eq!(tensor(Vec::<f64>::new()).shape(), [0]);
    assert_eq!(Tensor::scalar(2i8).item::<i8>().unwrap(), 2);
}

#[test]
fn every_dtype_is_made_and_read_back_unchanged() {
    macro_rules! back {
        ($($t:ty: $values:expr),*) => {$(
            let values: Vec<$t> = $values.to_vec();
            let x = Tensor::from_slice(&values, [values.len()]).unwrap();
            assert_eq!(x.to_vec::<$t>().unwrap(), values);
            assert_eq!(Tensor::from_vec(values.clone(), [1, values.len()]).unwrap().shape(), [1, values.len()]);
        )*};
    }
    back!(i8: [i8::MIN, -1, i8::MAX], i16: [i16::MIN, i16::MAX], i32: [i32::MIN, i32::MAX]);
    back!(i64: [i64::MIN, i64::MAX], u8: [0, u8::MAX], u16: [0, u16::MAX], u32: [0, u32::MAX]);
    back!(u64: [0, u64::MAX], bool: [true, false]);
    back!(f16: [f16::MAX, f16::MIN_POSITIVE_SUBNORMAL], bf16: [bf16::MAX, bf16::NEG_INFINITY]);
    back!(f32: [f32::MIN, 1e-45, -0.0], f64: [f64::MAX, 5e-324, f64::INFINITY]);
}

#[test]
fn constant_tensors_hold_their_value_in_every_dtype() {
    for dtype in DType::ALL {
        for shape in [&[][..], &[3], &[2, 0, 4], &[2, 3]] {
            let len: usize = shape.iter().product();
            let zeros = Tensor::zeros(shape, dtype).unwrap();
            let ones = Tensor::ones(shape, dtype).unwrap();
            assert_eq!(zeros.to_f64_vec(), vec![0.0; len]);
            assert_eq!(ones.to_f64_vec(), vec![1.0; len]);
            assert_eq!(zeros.ones_like().unwrap().to_f64_vec(), vec![1.0; len]);
            assert_eq!(ones.zeros_like().unwrap().to_f64_vec(), vec![0.0; len]);
            assert_eq!(ones.full_like(0.0).unwrap().dtype(), dtype);
            let full = Tensor::full(shape, 1.0, dtype).unwrap();
            assert_eq!((full.shape().to_vec(), full.dtype()), (shape.to_vec(), dtype));
        }
    }
}

#[test]
fn a_constant_is_rounded_to_the_nearest_value_of_a_float_type() {
    // Just above the middle between two neighbours: rounding twice would find the lower one.
    let above = 0.798828125 * (1.0 + 1e-9);
    let x = Tensor::scalar_of(above, DType::BF16).unwrap();
    assert_eq!(x.to_f64_vec(), [0.80078125]);
    let x = Tensor::scalar_of(2049.0 * (1.0 + 1e-12), DType::F16).unwrap();
    assert_eq!(x.to_f64_vec(), [2050.0]);
    let x = Tensor::scalar_of(1e300, DType::F32).unwrap();
    assert_eq!(x.to_f64_vec(), [f64::INFINITY]);
}

#[test]
fn a_range_stops_before_its_end() {
    let range = |a, b, c, dtype| Tensor::arange(a, b, c, dtype).unwrap();
    assert_eq!(range(0.0, 3.0, 1.0, DType::I8).to_vec::<i8>().unwrap(), [0, 1, 2]);
    assert_eq!(range(5.0, 0.0, -2.0, DType::U64).to_vec::<u64>().unwrap(), [5, 3, 1]);
    assert_eq!(range(0.0, 1.0, 0.25, DType::F32).to_f64_vec(), [0.0, 0.25, 0.5, 0.75]);
    assert_eq!(range(1.0, 1.0, 1.0, DType::F32).shape(), [0]);
    assert_eq!(range(1.0, 0.0, 1.0, DType::F32).shape(), [0]);
}

#[test]
fn evenly_spaced_numbers_include_both_ends_exactly() {
    let x = Tensor::linspace(0.1, 0.7, 7, DType::F64).unwrap().to_f64_vec();
    assert_eq!((x[0], x[6], x.len()), (0.1, 0.7, 7));
    assert_eq!(Tensor::linspace(3.0, 9.0, 1, DType::F32).unwrap().to_f64_vec(), [3.0]);
    assert_eq!(Tensor::linspace(3.0, 9.0, 0, DType::F32).unwrap().shape(), [0]);
}

#[test]
fn eye_has_ones_on_its_diagonal() {
    let x = Tensor::eye(2, 3, DType::I32).unwrap();
    assert_eq!(x.to_vec::<i32>().unwrap(), [1, 0, 0, 0, 1, 0]);
    assert_eq!(Tensor::eye(0, 3, DType::F32).unwrap().shape(), [0, 3]);
    assert_eq!(Tensor::eye(3, 0, DType::F32).unwrap().shape(), [3, 0]);
}

#[test]
fn a_clone_and_a_view_share_the_memory_and_nothing_is_copied() {
    let x = Tensor::zeros([1000, 1000], DType::F64).unwrap();
    let clone = x.clone();
    assert!(clone.shares_memory_with(&x));
    assert_eq!(clone.as_slice::<f64>().unwrap().as_ptr(), x.as_slice::<f64>().unwrap().as_ptr());
    let view = slice(&transpose(&x, None).unwrap(), 0, 10, None, -3).unwrap();
    assert!(view.shares_memory_with(&x) && !view.is_contiguous());
    assert_eq!(view.strides(), [-3, 1000]);
    assert!(!view.contiguous().unwrap().shares_memory_with(&x));
    assert!(x.contiguous().unwrap().shares_memory_with(&x));
}

#[test]
fn a_vector_becomes_a_tensor_without_a_copy() {
    let values = vec![1.0f32; 100_000];
    let place = values.as_ptr();
    let x = Tensor::from_vec(values, [100, 1000]).unwrap();
    assert_eq!(x.as_slice::<f32>().unwrap().as_ptr(), place);
}

#[test]
fn tensors_go_from_thread_to_thread() {
    fn sendable<T: Send + Sync + Clone + 'static>(_: &T) {}
    let x = tensor([1.0, 2.0]);
    sendable(&x);
    let there = x.clone();
    let back = std::thread::spawn(move || there.to_f64_vec()).join().unwrap();
    assert_eq!(back, x.to_f64_vec());
}
