//! Joining, splitting, repeating, padding, and triangles.

use super::*;

#[test]
fn joining_and_cutting_are_each_others_inverse_in_every_layout() {
    let mut dice = Dice(7);
    for _ in 0..100 {
        let ndim = 1 + dice.below(3);
        let shape = dice.shape(ndim);
        let axis = dice.below(ndim);
        let mut parts = vec![];
        for _ in 0..1 + dice.below(4) {
            let mut shape = shape.clone();
            shape[axis] = dice.below(4);
            parts.push(any_tensor(&mut dice, &shape));
        }
        let whole = concatenate(&parts, axis as i64).unwrap();
        let sizes: Vec<i64> = parts.iter().map(|p| p.shape()[axis] as i64).collect();
        let again = split(&whole, &sizes[..], axis as i64 - ndim as i64).unwrap();
        for (a, b) in again.iter().zip(&parts) {
            assert_eq!(a.difference(b, Tolerance::EXACT), None);
        }
        let layers = vec![any_tensor(&mut dice, &shape); 3];
        let pile = stack(&layers, axis as i64).unwrap();
        for (i, part) in split(&pile, 3, axis as i64).unwrap().iter().enumerate() {
            let layer = squeeze(part, axis).unwrap();
            assert_eq!(layer.difference(&layers[i], Tolerance::EXACT), None);
        }
    }
}

#[test]
fn tiles_and_borders_have_the_elements_that_their_definition_names() {
    let mut dice = Dice(9);
    for _ in 0..100 {
        let ndim = 1 + dice.below(3);
        let shape = dice.shape(ndim);
        let x = any_tensor(&mut dice, &shape);
        let repeats: Vec<usize> = (0..ndim).map(|_| dice.below(4)).collect();
        let y = tile(&x, &repeats).unwrap();
        let wrapped = |at: &[usize]| at.iter().zip(&shape).map(|(i, s)| i % s).collect();
        assert_eq!(y.to_vec::<i64>().unwrap(), picked(&x, y.shape(), wrapped));

        let pads: Vec<(i64, i64)> =
            (0..ndim).map(|_| (dice.below(3) as i64, dice.below(3) as i64)).collect();
        let y = pad(&x, &pads, -9.0).unwrap();
        for at in indices(y.shape()) {
            let from: Vec<i64> = at.iter().zip(&pads).map(|(&i, p)| i as i64 - p.0).collect();
            let inside = from.iter().zip(&shape).all(|(&i, &s)| (0..s as i64).contains(&i));
            let from: Vec<usize> = from.iter().map(|&i| i as usize).collect();
            let want = if inside { x.get::<i64>(&from).unwrap() } else { -9 };
            assert_eq!(y.get::<i64>(&at).unwrap(), want, "{shape:?} {pads:?}");
        }
    }
}

#[test]
fn triangles_keep_one_side_of_the_diagonal() {
    for shape in [[4, 4], [3, 6], [6, 3], [1, 1]] {
        let x = pad(&strided(&counting(&[2, shape[0], shape[1]], DType::I64)), [(0, 0); 3], 0.0)
            .unwrap();
        for k in [-9, -2, -1, 0, 1, 2, 9, i64::MIN, i64::MAX] {
            let (low, high) = (tril(&x, k).unwrap(), triu(&x, k).unwrap());
            for at in indices(x.shape()) {
                let value = x.get::<i64>(&at).unwrap();
                let side = at[2] as i128 - at[1] as i128;
                let want = |keep: bool| if keep { value } else { 0 };
                assert_eq!(low.get::<i64>(&at).unwrap(), want(side <= k as i128));
                assert_eq!(high.get::<i64>(&at).unwrap(), want(side >= k as i128));
            }
        }
    }
    let nan = tensor([[1.0, f64::NAN], [f64::NAN, 2.0]]);
    assert_eq!(tril(&nan, -2).unwrap().to_f64_vec(), [0.0; 4]);
}

#[test]
fn dtypes_of_one_kind_join_in_their_common_type_and_each_part_gets_its_own_gradient() {
    let (a, b) = (cast(&tensor([1.0]), DType::F16).unwrap(), tensor([2.0f32, 3.0]));
    let y = concatenate(&[&a, &b], 0).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    let op = catalogue::find("concatenate").unwrap().operation(&params::Params::new()).unwrap();
    let grads = backward(&*op, &[&y], &[&a, &b], &[&y], &[true, true]).unwrap();
    assert_eq!(grads[0].as_ref().unwrap().dtype(), DType::F16);
    assert!(concatenate(&[tensor([1.0]), tensor([1])], 0).is_err());
    assert!(concatenate(&[] as &[Tensor], 0).is_err());
}

#[test]
fn infinities_and_nans_elsewhere_do_not_reach_a_tangent() {
    let (a, b) = (tensor([1.0]), tensor([f64::INFINITY, f64::NAN]));
    let op = catalogue::find("concatenate").unwrap().operation(&params::Params::new()).unwrap();
    let y = apply(&*op, &[&a, &b]).unwrap();
    let along =
        forward_derivative(&*op, &[&a, &b], &[&y[0]], &[Some(&tensor([5.0])), None]).unwrap();
    assert_eq!(along[0].to_f64_vec(), [5.0, 0.0, 0.0]);
    let pads = params::Params::new().with("pads", vec![(1, 0)]).with("value", f64::NEG_INFINITY);
    let op = catalogue::find("pad").unwrap().operation(&pads).unwrap();
    let y = apply(&*op, &[&a]).unwrap();
    let along = forward_derivative(&*op, &[&a], &[&y[0]], &[Some(&tensor([5.0]))]).unwrap();
    assert_eq!(along[0].to_f64_vec(), [0.0, 5.0]);
}

#[test]
fn copies_have_the_same_bits_for_any_number_of_threads() {
    let x = transpose(&counting(&[500, 300], DType::F32), None).unwrap();
    let run = || {
        let joined = concatenate(&[&x, &x], 1).unwrap();
        let padded = pad(&joined, [(3, 5), (7, 1)], 0.25).unwrap();
        tril(&tile(&padded, [1, 2]).unwrap(), 100).unwrap().to_f64_vec()
    };
    let one = threads::with(1, run);
    for n in [2, 4] {
        assert!(threads::with(n, run) == one);
    }
}
