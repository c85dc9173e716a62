//! Reading tensors back.

use extensor::ops::{broadcast_to, flip, slice, transpose};
use extensor::{DType, Tensor, tensor};

#[test]
fn elements_are_read_in_row_major_order_whatever_the_layout() {
    let x = tensor([[1, 2, 3], [4, 5, 6]]);
    let turned = transpose(&x, None).unwrap();
    assert_eq!(turned.to_vec::<i32>().unwrap(), [1, 4, 2, 5, 3, 6]);
    let back: Vec<i32> = flip(&x, [1]).unwrap().iter::<i32>().unwrap().collect();
    assert_eq!(back, [3, 2, 1, 6, 5, 4]);
    let part = slice(&x, 1, None, None, 2).unwrap();
    assert_eq!(part.to_f64_vec(), [1.0, 3.0, 4.0, 6.0]);
    let wide = broadcast_to(&tensor([7, 8]), [2, 2]).unwrap();
    assert_eq!(wide.to_vec::<i32>().unwrap(), [7, 8, 7, 8]);
}

#[test]
fn one_element_is_read_by_item_and_any_by_its_index() {
    assert_eq!(tensor([[2.5f32]]).item::<f32>().unwrap(), 2.5);
    let x = transpose(&tensor([[1, 2, 3], [4, 5, 6]]), None).unwrap();
    assert_eq!(x.get::<i32>(&[2, 1]).unwrap(), 6);
    assert_eq!(x.get::<i32>(&[1, 0]).unwrap(), 2);
    assert!(tensor(true).get::<bool>(&[]).unwrap());
    let last = slice(&tensor([1, 2, 3]), 0, 2, None, 1).unwrap();
    assert_eq!(last.item::<i32>().unwrap(), 3);
}

#[test]
fn a_slice_is_given_where_the_elements_lie_so() {
    let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(x.as_slice::<f64>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(
        x.as_slice::<f32>().unwrap_err().to_string(),
        "as_slice: the tensor has dtype f64, expected f32"
    );
    assert_eq!(
        transpose(&x, None).unwrap().as_slice::<f64>().unwrap_err().to_string(),
        "as_slice: the order of the elements in memory is one with strides [1, 2] for shape [2, 2], \
         expected row by row, without gaps"
    );
    let row = slice(&x, 0, 1, 2, 1).unwrap();
    assert_eq!(row.as_slice::<f64>().unwrap(), [3.0, 4.0]);
}

#[test]
fn empty_tensors_are_read_as_nothing() {
    for shape in [[0, 3], [3, 0], [0, 0]] {
        for dtype in DType::ALL {
            let x = Tensor::zeros(shape, dtype).unwrap();
            assert!(x.is_empty() && x.to_f64_vec().is_empty() && x.is_contiguous());
        }
        let x = transpose(&Tensor::zeros(shape, DType::F64).unwrap(), None).unwrap();
        assert_eq!(x.iter::<f64>().unwrap().count(), 0);
        assert!(x.as_slice::<f64>().unwrap().is_empty());
    }
}

#[test]
fn iterators_cross_their_pieces_without_a_seam() {
    let x = Tensor::arange(0.0, 3000.0, 1.0, DType::I32).unwrap();
    let x = extensor::ops::reshape(&x, [50, 60]).unwrap();
    let turned: Vec<i32> = transpose(&x, None).unwrap().to_vec().unwrap();
    let want = (0..3000).map(|k| k % 50 * 60 + k / 50);
    assert!(turned.into_iter().eq(want));
}

#[test]
fn more_elements_than_there_is_memory_for_are_not_read() {
    let x = extensor::ops::broadcast_to(&Tensor::scalar(1.0), [1usize << 45]).unwrap();
    assert!(matches!(x.to_vec::<f64>(), Err(extensor::Error::OutOfMemory { op: "to_vec", .. })));
    assert!(matches!(x.copied(), Err(extensor::Error::OutOfMemory { .. })));
}
