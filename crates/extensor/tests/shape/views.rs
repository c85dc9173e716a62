//! Views: they share memory, and show the right elements.

use super::*;

#[test]
fn views_share_memory_and_copy_nothing() {
    let x = counting(&[2, 1, 6], DType::F32);
    let views = [
        reshape(&x, [3, -1]),
        transpose(&x, None),
        transpose(&x, [2, 0, 1]),
        broadcast_to(&x, [5, 2, 4, 6]),
        squeeze(&x, None),
        squeeze(&x, 1),
        expand_dims(&x, [0, -1]),
        flatten(&x, 0, -1),
        slice(&x, 2, 1, None, 2),
        slice(&x, 2, None, None, -1),
        slice(&x, 0, 2, 2, 1),
        flip(&x, [0, 2]),
        cast(&x, DType::F32),
    ];
    for view in views {
        let view = view.unwrap();
        assert!(view.shares_memory_with(&x), "{:?}", view.shape());
        // and views of views
        let again = flip(&transpose(&view, None).unwrap(), None).unwrap();
        assert!(again.shares_memory_with(&x));
    }
    for part in split(&x, [1, 5], 2).unwrap() {
        assert!(part.shares_memory_with(&x));
    }
}

#[test]
fn the_backward_of_a_view_is_a_view_where_no_element_is_summed_or_filled_in() {
    let g = counting(&[2, 3, 4], DType::F64);
    let views = [
        reshape_backward(&g, &[24]),
        transpose_backward(&g, [1, 2, 0]),
        squeeze_backward(&g, &[2, 1, 3, 4]),
        expand_dims_backward(&expand_dims(&g, 0).unwrap(), &[2, 3, 4]),
        flatten_backward(&g, &[2, 3, 2, 2]),
        flip_backward(&g, None),
        pad_backward(&g, &[1, 3, 2], [(1, 0), (0, 0), (1, 1)], 0.0),
    ];
    for view in views {
        assert!(view.unwrap().shares_memory_with(&g));
    }
    for part in concatenate_backward(&g, &[1, 2], 1).unwrap() {
        assert!(part.shares_memory_with(&g));
    }
    for part in stack_backward(&g, -1).unwrap() {
        assert!(part.shares_memory_with(&g));
    }
}

#[test]
fn reshaping_what_is_not_contiguous_keeps_the_row_major_order() {
    let x = counting(&[2, 3, 4], DType::I64);
    let y = transpose(&x, [2, 0, 1]).unwrap();
    let flat = reshape(&y, [-1]).unwrap();
    assert_eq!(flat.to_vec::<i64>().unwrap(), y.to_vec::<i64>().unwrap());
    assert!(!flat.shares_memory_with(&x));
    // Axes that are one in memory merge without a copy, and an axis of a transposed array splits.
    let merged = reshape(&y, [4, 6]).unwrap();
    assert!(merged.shares_memory_with(&x));
    assert_eq!(merged.to_vec::<i64>().unwrap(), y.to_vec::<i64>().unwrap());
    let cut = reshape(&y, [2, 2, 1, 2, 3, 1]).unwrap();
    assert!(cut.shares_memory_with(&x));
    assert_eq!(cut.to_vec::<i64>().unwrap(), y.to_vec::<i64>().unwrap());
}

#[test]
fn a_reshape_of_any_view_lists_the_same_elements() {
    let mut dice = Dice(3);
    for _ in 0..300 {
        let ndim = dice.below(4);
        let shape = dice.shape(ndim);
        let mut x = any_tensor(&mut dice, &shape);
        if dice.below(2) == 0 {
            x = flip(&transpose(&x, None).unwrap(), None).unwrap();
        }
        // Another shape with the same number of elements: some factors regrouped.
        let mut rest = x.len();
        let mut to = vec![];
        for factor in [2, 3, 2, 5] {
            if rest > 0 && rest.is_multiple_of(factor) && dice.below(2) == 0 {
                to.push(factor);
                rest /= factor;
            }
        }
        let place = dice.below(to.len() + 1);
        to.insert(place, rest);
        let y = reshape(&x, &to).unwrap();
        assert_eq!(*y.shape(), to[..]);
        assert_eq!(y.to_vec::<i64>().unwrap(), x.to_vec::<i64>().unwrap());
    }
}

/// Python's `range(size)[start:stop:step]`, by going there step by step.
fn python(size: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<i64> {
    let bound = |at: i64| if at < 0 { at + size } else { at };
    let inside = |at: i64| (0..size).contains(&at);
    let mut at = match start {
        Some(start) if step > 0 => bound(start).max(0),
        Some(start) => bound(start).min(size - 1),
        None if step > 0 => 0,
        None => size - 1,
    };
    let before_stop = |at: i64| match stop {
        None => true,
        Some(stop) if step > 0 => at < bound(stop),
        Some(stop) => at > bound(stop).max(-1),
    };
    let mut found = vec![];
    while inside(at) && before_stop(at) {
        found.push(at);
        at += step;
    }
    found
}

#[test]
fn slices_are_pythons_for_every_start_stop_step_and_size() {
    let some = (-7..=7).map(Some).chain([None]);
    let bounds: Vec<Option<i64>> = some.collect();
    for size in 0..=5i64 {
        let x = counting(&[size as usize], DType::I64);
        for step in (-6..=6).filter(|&step| step != 0) {
            for &start in &bounds {
                for &stop in &bounds {
                    let got = slice(&x, 0, start, stop, step).unwrap();
                    let want = python(size, start, stop, step);
                    assert_eq!(
                        got.to_vec::<i64>().unwrap(),
                        want,
                        "{size} {start:?}:{stop:?}:{step}"
                    );
                }
            }
        }
    }
}

#[test]
fn slices_with_the_largest_numbers_neither_panic_nor_wrap() {
    let x = counting(&[3, 4], DType::I64);
    let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
    for start in ends {
        for stop in ends {
            for step in ends.into_iter().filter(|&step| step != 0) {
                let y = slice(&x, 1, start, stop, step).unwrap();
                assert!(y.shape()[1] <= 4);
                let g = y.shape().to_vec();
                let g = Tensor::ones(g, DType::F64).unwrap();
                let back = slice_backward(&g, &[3, 4], 1, start, stop, step).unwrap();
                assert_eq!(back.to_f64_vec().iter().sum::<f64>() as usize, y.len());
            }
        }
    }
}

#[test]
fn a_slices_gradient_lies_where_its_elements_came_from() {
    let x = counting(&[2, 7, 3], DType::I64);
    for (start, stop, step) in
        [(0, 7, 1), (1, 6, 2), (6, 0, -3), (-1, -8, -1), (5, 5, 1), (2, 7, 4)]
    {
        let y = slice(&x, 1, start, stop, step).unwrap();
        let g = cast(&y, DType::F64).unwrap();
        let back = slice_backward(&g, &[2, 7, 3], 1, start, stop, step).unwrap();
        // Every element is its own number, so the gradient is that number or 0.
        let kept = y.to_vec::<i64>().unwrap();
        let want = (0..42).map(|i| if kept.contains(&i) { i as f64 } else { 0.0 });
        assert_eq!(back.to_f64_vec(), want.collect::<Vec<_>>());
    }
}

#[test]
fn views_pick_the_elements_that_their_definition_names() {
    let mut dice = Dice(1);
    for _ in 0..200 {
        let ndim = 1 + dice.below(3);
        let shape = dice.shape(ndim);
        let x = any_tensor(&mut dice, &shape);
        let axis = dice.below(ndim);

        let mut order: Vec<usize> = (0..ndim).collect();
        order.rotate_left(axis);
        let y = transpose(&x, &order).unwrap();
        let put_back = |at: &[usize]| {
            let mut from = vec![0; ndim];
            order.iter().zip(at).for_each(|(&o, &i)| from[o] = i);
            from
        };
        assert_eq!(y.to_vec::<i64>().unwrap(), picked(&x, y.shape(), put_back));

        let y = flip(&x, axis).unwrap();
        let mirrored = |at: &[usize]| {
            let mut at = at.to_vec();
            at[axis] = shape[axis] - 1 - at[axis];
            at
        };
        assert_eq!(y.to_vec::<i64>().unwrap(), picked(&x, &shape, mirrored));

        let y = expand_dims(&x, axis).unwrap();
        let y = broadcast_to(&y, [&shape[..axis], &[3], &shape[axis..]].concat()).unwrap();
        let without = |at: &[usize]| [&at[..axis], &at[axis + 1..]].concat();
        assert_eq!(y.to_vec::<i64>().unwrap(), picked(&x, y.shape(), without));
    }
}

#[test]
fn impossible_sizes_are_errors_and_not_panics() {
    let one = tensor(1.0);
    let huge = i64::MAX;
    assert!(matches!(broadcast_to(&one, [huge, huge]), Err(Error::Overflow { .. })));
    assert!(matches!(broadcast_to(&one, [huge]), Err(Error::Overflow { .. })));
    assert!(matches!(reshape(&one, [huge, huge, -1]), Err(Error::Overflow { .. })));
    assert!(matches!(reshape(&one, [i64::MIN]), Err(Error::Parameter { .. })));
    assert!(matches!(tile(&one, [huge, 2]), Err(Error::Overflow { .. })));
    assert!(matches!(pad(&tensor([1.0]), [(huge, huge)], 0.0), Err(Error::Overflow { .. })));
    assert!(matches!(pad(&tensor([1.0]), [(huge / 16, 0)], 0.0), Err(Error::OutOfMemory { .. })));
    assert!(matches!(one_hot(&tensor([0]), huge, DType::U8), Err(Error::Overflow { .. })));
    let wide = broadcast_to(&one, [1i64 << 58]).unwrap();
    assert!(matches!(wide.contiguous(), Err(Error::OutOfMemory { .. })));
    assert!(matches!(
        concatenate(&[&wide, &wide, &wide, &wide, &wide], 0),
        Err(Error::Overflow { .. })
    ));
    assert!(matches!(
        stack(&[&wide; 4], 0),
        Err(Error::OutOfMemory { .. } | Error::Overflow { .. })
    ));
    assert_eq!(tile(&wide, [2]).unwrap().shape(), [1 << 59]);
    let back = reshape(&slice(&wide, 0, 5, 8, 1).unwrap(), [3]).unwrap();
    assert_eq!(back.to_f64_vec(), [1.0; 3]);
}

#[test]
fn an_empty_tensor_may_have_any_other_sizes() {
    let big = 1usize << 40;
    let x = Tensor::zeros([big, 0, big], DType::F64).unwrap();
    assert!(x.is_contiguous());
    assert_eq!(x.to_f64_vec(), [0.0; 0]);
    assert_eq!(transpose(&x, None).unwrap().shape(), [big, 0, big]);
    assert_eq!(flip(&x, None).unwrap().to_f64_vec(), [0.0; 0]);
    assert_eq!(slice(&x, 0, 5, None, 7).unwrap().shape()[1], 0);
    assert_eq!(flatten(&x, 0, -1).unwrap().shape(), [0]);
    assert_eq!(cast(&x, DType::F32).unwrap().len(), 0);
    assert_eq!(tile(&x, [1, 1, 2]).unwrap().len(), 0);
    assert_eq!(pad(&x, [(0, 0), (0, 0), (1, 0)], 0.0).unwrap().len(), 0);
    assert_eq!(tril(&x, 0).unwrap().len(), 0);
    let joined = concatenate(&[&x, &x], 2).unwrap();
    assert_eq!(joined.shape(), [big, 0, 2 * big]);
    let filled = pad(&Tensor::zeros([0, 2], DType::F64).unwrap(), [(1, 0), (0, 1)], 7.0).unwrap();
    assert_eq!(filled.to_f64_vec(), [7.0; 3]);
}

#[test]
fn a_backward_names_itself_when_its_gradient_does_not_fit() {
    let g = counting(&[2, 3], DType::F64);
    assert_eq!(
        message(reshape_backward(&g, &[4])),
        "reshape_backward: grad_output has shape [2, 3], expected 4 elements to fill [4]"
    );
    assert_eq!(
        message(slice_backward(&g, &[5, 3], 0, 1, 4, 1)),
        "slice_backward: grad_output has shape [2, 3], expected [3, 3]"
    );
    assert_eq!(
        message(concatenate_backward(&g, &[1, 2], 0)),
        "concatenate_backward: grad_output has shape [2, 3], expected [3, 3]"
    );
    assert_eq!(
        message(split_backward(&[&g, &tensor([1.0])], 0)),
        "split_backward: grad_output has shape [1], expected [1, 3]"
    );
    let ints = counting(&[2, 3], DType::I32);
    assert!(message(flip_backward(&ints, 0)).contains("flip: cannot be differentiated"));
    assert!(
        message(squeeze_backward(&ints, &[6]))
            .starts_with("squeeze_backward: grad_output has dtype i32")
    );
}

#[test]
fn the_layout_of_a_batch_does_not_show_in_the_bits_of_a_product() {
    // Rows, single or not, of a batch whose axes cannot be made one.
    let weight = Key::new(1).normal([333, 17], DType::F32).unwrap();
    for rows in [1, 2, 3] {
        let x = Key::new(2).normal([5, 7, rows, 333], DType::F32).unwrap();
        let view = transpose(&x, [1, 0, 2, 3]).unwrap();
        let [direct, packed] = [view.clone(), view.contiguous().unwrap()]
            .map(|x| matmul(&x, &weight).unwrap().to_vec::<f32>().unwrap());
        assert_eq!(direct, packed, "{rows} rows");
    }
}
