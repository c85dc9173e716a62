//! Picking by index, adding at indices, and what repeated indices sum to.

use super::*;

/// Positions below `size`, in one of the whole-number types and some layout.
fn any_index(dice: &mut Dice, size: usize, shape: &[usize]) -> Tensor {
    let len: usize = shape.iter().product();
    let list: Vec<i64> = (0..len).map(|_| dice.below(size) as i64).collect();
    let index = Tensor::from_vec(list, shape).unwrap();
    let index = cast(&index, DType::INTS[dice.below(8)]).unwrap();
    if dice.below(2) == 0 { index } else { strided(&index) }
}

fn positions(index: &Tensor) -> Tensor {
    cast(index, DType::I64).unwrap()
}

#[test]
fn taking_and_gathering_pick_the_elements_that_their_definition_names() {
    let mut dice = Dice(21);
    for _ in 0..300 {
        let ndim = 1 + dice.below(3);
        let axis = dice.below(ndim);
        let mut shape = dice.shape(ndim);
        shape[axis] = 1 + dice.below(5);
        let x = any_tensor(&mut dice, &shape);

        let rank = dice.below(3);
        let listed = dice.shape(rank);
        let index = any_index(&mut dice, shape[axis], &listed);
        let y = take(&x, &index, axis as i64).unwrap();
        let wide = positions(&index);
        let row = |at: &[usize]| {
            let position = wide.get::<i64>(&at[axis..axis + rank]).unwrap() as usize;
            [&at[..axis], &[position], &at[axis + rank..]].concat()
        };
        assert_eq!(*y.shape(), [&shape[..axis], &listed, &shape[axis + 1..]].concat()[..]);
        assert_eq!(y.to_vec::<i64>().unwrap(), picked(&x, y.shape(), row));

        let mut small: Vec<usize> =
            shape.iter().map(|&s| if s == 0 { 0 } else { 1 + dice.below(s) }).collect();
        small[axis] = dice.below(7);
        let index = any_index(&mut dice, shape[axis], &small);
        let y = gather(&x, &index, axis as i64 - ndim as i64).unwrap();
        let wide = positions(&index);
        let moved = |at: &[usize]| {
            let mut from = at.to_vec();
            from[axis] = wide.get::<i64>(at).unwrap() as usize;
            from
        };
        assert_eq!(y.to_vec::<i64>().unwrap(), picked(&x, &small, moved));
    }
}

#[test]
fn scattering_adds_every_source_element_at_its_position() {
    let mut dice = Dice(22);
    for _ in 0..300 {
        let ndim = 1 + dice.below(3);
        let axis = dice.below(ndim);
        let mut shape = dice.shape(ndim);
        shape[axis] = 1 + dice.below(5);
        let x = any_tensor(&mut dice, &shape);
        let mut small: Vec<usize> =
            shape.iter().map(|&s| if s == 0 { 0 } else { 1 + dice.below(s) }).collect();
        small[axis] = dice.below(7);
        let larger: Vec<usize> = small.iter().map(|s| s + dice.below(2)).collect();
        let index = any_index(&mut dice, shape[axis], &small);
        let source = any_tensor(&mut dice, &larger);
        let y = scatter_add(&x, &index, &source, axis as i64).unwrap();

        let strides: Vec<usize> = (0..ndim).map(|i| shape[i + 1..].iter().product()).collect();
        let mut want = x.to_vec::<i64>().unwrap();
        let wide = positions(&index);
        for at in indices(&small) {
            let mut to = at.clone();
            to[axis] = wide.get::<i64>(&at).unwrap() as usize;
            let number: usize = to.iter().zip(&strides).map(|(i, s)| i * s).sum();
            want[number] += source.get::<i64>(&at).unwrap();
        }
        assert_eq!(y.to_vec::<i64>().unwrap(), want, "{shape:?} {small:?} {axis}");
    }
}

#[test]
fn what_is_taken_several_times_gets_the_sum() {
    let g = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let index = tensor([1, 1, 0]);
    let grad = take_backward(&g, &index, &[3, 2], 0).unwrap();
    assert_eq!(grad.to_f64_vec(), [5.0, 6.0, 4.0, 6.0, 0.0, 0.0]);
    let grad = embedding_backward(&g, &index, &[3, 2]).unwrap();
    assert_eq!(grad.to_f64_vec(), [5.0, 6.0, 4.0, 6.0, 0.0, 0.0]);
    let index = tensor([[0, 0], [0, 1], [1, 1]]);
    let grad = gather_backward(&g, &index, &[3, 3], 1).unwrap();
    assert_eq!(grad.to_f64_vec(), [3.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 11.0, 0.0]);
    let none = Tensor::zeros([0], DType::I64).unwrap();
    let grad =
        take_backward(&Tensor::zeros([0, 2], DType::F64).unwrap(), &none, &[3, 2], 0).unwrap();
    assert_eq!(grad.to_f64_vec(), [0.0; 6]);
}

#[test]
fn sums_at_an_index_are_taken_wide_and_rounded_once() {
    // 2048 + 1 rounds back to 2048 in f16, and 256 + 1 to 256 in bf16: one by one nothing arrives.
    for (dtype, start, want) in [(DType::F16, 2048.0, 4048.0), (DType::BF16, 256.0, 2256.0)] {
        let x = Tensor::full([1], start, dtype).unwrap();
        let ones = Tensor::ones([2000], dtype).unwrap();
        let index = Tensor::zeros([2000], DType::I32).unwrap();
        let y = scatter_add(&x, &index, &ones, 0).unwrap();
        let rounded = cast(&tensor([want]), dtype).unwrap();
        assert_eq!(y.to_f64_vec(), rounded.to_f64_vec());
        let grad = take_backward(&ones, &index, &[1], 0).unwrap();
        assert_eq!(grad.to_f64_vec(), [2000.0]);
    }
    let bytes = scatter_add(&tensor([250u8]), &tensor([0, 0]), &tensor([4u8, 4]), 0).unwrap();
    assert_eq!(bytes.to_vec::<u8>().unwrap(), [2]);
}

#[test]
fn sums_at_an_index_have_the_same_bits_for_any_number_of_threads_and_any_layout() {
    let key = Key::new(4);
    for dtype in DType::FLOATS {
        for (shape, listed, axis) in
            [([300, 64, 2], 5000, 0), ([3, 50, 200], 400, 1), ([70, 3, 90], 800, 2)]
        {
            let index = key.integers([listed], shape[axis] as u64).unwrap();
            let mut long = shape;
            long[axis] = listed;
            let g = key.fold_in(1).normal(long, dtype).unwrap();
            let each = key.fold_in(2).integers(long, shape[axis] as u64).unwrap();
            let run = |g: &Tensor, index: &Tensor, each: &Tensor| {
                let taken = take_backward(g, index, &shape, axis as i64).unwrap();
                let picked = gather_backward(g, each, &shape, axis as i64).unwrap();
                [taken.to_f64_vec(), picked.to_f64_vec()].concat()
            };
            let one = threads::with(1, || run(&g, &index, &each));
            for n in [2, 4] {
                assert!(threads::with(n, || run(&g, &index, &each)) == one, "{dtype} {n} threads");
            }
            let other = run(&strided(&g), &strided(&index), &strided(&each));
            assert!(other == one, "{dtype}: another layout");
            // The same sums by the general route, which has an index for each element.
            let column: Vec<usize> = (0..3).map(|i| if i == axis { listed } else { 1 }).collect();
            let full = broadcast_to(&reshape(&index, &column).unwrap(), &long[..]).unwrap();
            let full = full.contiguous().unwrap();
            let general = gather_backward(&g, &full, &shape, axis as i64).unwrap();
            assert!(general.to_f64_vec() == one[..general.len()], "{dtype}: the general route");
        }
    }
}

#[test]
fn an_index_outside_its_axis_is_named_with_axis_and_size() {
    let x = counting(&[2, 3], DType::F64);
    let cases = [
        (take(&x, &tensor([0, 5]), 1), "take: index 5 is out of range for axis 1 of size 3"),
        (take(&x, &tensor([-1]), -1), "take: index -1 is out of range for axis 1 of size 3"),
        (gather(&x, &tensor([[3u8]]), 1), "gather: index 3 is out of range for axis 1 of size 3"),
        (embedding(&x, &tensor([2u16])), "embedding: index 2 is out of range for axis 0 of size 2"),
        (
            take_backward(&x, &tensor([0, 9]), &[4, 3], 0),
            "take_backward: index 9 is out of range for axis 0 of size 4",
        ),
        (
            gather_backward(&x, &tensor([[0, 0, 0], [0, 4, 0]]), &[4, 3], 0),
            "gather_backward: index 4 is out of range for axis 0 of size 4",
        ),
        (
            take(&x, &tensor([u64::MAX]), 0),
            "take: index 9223372036854775807 is out of range for axis 0 of size 2",
        ),
    ];
    for (result, want) in cases {
        assert_eq!(message(result), want);
    }
    // The first of several is named, even from a later part of a long list.
    let mut list = vec![0i64; 300_000];
    list[200_000] = 7;
    list[299_999] = 8;
    let long = Tensor::from_vec(list, [300_000]).unwrap();
    assert!(message(threads::with(4, || take(&x, &long, 0))).contains("index 7 "));
}

#[test]
fn one_hot_rows_have_their_one_at_the_index_in_every_dtype() {
    let index = tensor([[2u8, 0], [1, 1]]);
    for dtype in DType::ALL {
        let y = one_hot(&strided(&index), 3, dtype).unwrap();
        assert_eq!(y.shape(), [2, 2, 3]);
        let want = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0];
        assert_eq!(y.to_f64_vec(), want, "{dtype}");
    }
    let none = Tensor::zeros([0], DType::I64).unwrap();
    assert_eq!(one_hot(&none, 0, DType::F32).unwrap().shape(), [0, 0]);
}

#[test]
fn an_index_is_never_differentiated() {
    let (x, index) = (tensor([1.0, 2.0]), tensor([0i64]));
    let op = catalogue::find("take").unwrap().operation(&params::Params::new()).unwrap();
    let y = apply(&*op, &[&x, &index]).unwrap();
    let result = backward(&*op, &[&y[0]], &[&x, &index], &[&y[0]], &[false, true]);
    assert!(message(result).contains("with respect to index"));
}
