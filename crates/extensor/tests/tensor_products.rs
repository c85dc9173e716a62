//! Products over axes of tensors that are made of others: what they give, beside loops, and that they can
//! be differentiated.

use extensor::check::{Options, check_grad};
use extensor::ops::{DiagonalOptions, cross, einsum, einsum_path, kron, tensordot, trace, vecdot};
use extensor::{DType, Key, Result, Tensor, tensor};

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Key::new(seed).normal(shape, DType::F64).unwrap()
}

/// The elements of a tensor by their indices.
fn at(x: &Tensor, index: &[usize]) -> f64 {
    let place = index.iter().zip(x.shape().iter()).fold(0, |at, (i, n)| at * n + i);
    x.to_f64_vec()[place]
}

fn near(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-13 * (1.0 + want.abs()), "{got} is not {want}");
}

#[test]
fn a_tensordot_sums_over_the_axes_named() {
    let (a, b) = (normal(1, &[2, 3, 4]), normal(2, &[4, 5, 3]));
    let y = tensordot(&a, &b, ([2, -2], [0, 2])).unwrap();
    assert_eq!(y.shape(), [2, 5]);
    for i in 0..2 {
        for j in 0..5 {
            let terms = (0..12).map(|k| at(&a, &[i, k % 3, k / 3]) * at(&b, &[k / 3, j, k % 3]));
            near(at(&y, &[i, j]), terms.sum());
        }
    }
    let outer = tensordot(&a, &b, 0).unwrap();
    assert_eq!(outer.shape(), [2, 3, 4, 4, 5, 3]);
    near(at(&outer, &[1, 2, 3, 0, 4, 1]), at(&a, &[1, 2, 3]) * at(&b, &[0, 4, 1]));
    assert_eq!(tensordot(&a, &b, 1).unwrap().shape(), [2, 3, 5, 3]);
}

#[test]
fn a_vecdot_broadcasts_all_axes_but_its_own() {
    let (a, b) = (normal(1, &[2, 1, 4]), normal(2, &[4, 3]));
    let b = b.transpose(None).unwrap();
    let y = vecdot(&a, &b, -1).unwrap();
    assert_eq!(y.shape(), [2, 3]);
    for i in 0..2 {
        for j in 0..3 {
            near(at(&y, &[i, j]), (0..4).map(|k| at(&a, &[i, 0, k]) * at(&b, &[j, k])).sum());
        }
    }
    assert_eq!(vecdot(&a, &normal(3, &[4, 1]), -2).unwrap_err().to_string(), ERROR);
}

const ERROR: &str = "vecdot: b has shape [4, 1], expected size 1 along axis -2, that of a";

#[test]
fn a_kronecker_product_has_a_copy_of_b_for_each_element_of_a() {
    let (a, b) = (normal(1, &[2, 3]), normal(2, &[4, 1, 2]));
    let y = kron(&a, &b).unwrap();
    assert_eq!(y.shape(), [4, 2, 6]);
    for i in 0..2 {
        for j in 0..6 {
            near(at(&y, &[3, i, j]), at(&a, &[i, j / 2]) * at(&b, &[3, 0, j % 2]));
        }
    }
    assert_eq!(kron(&tensor(2.0), &tensor([1.0, 3.0])).unwrap().to_f64_vec(), [2.0, 6.0]);
}

#[test]
fn a_cross_product_is_at_right_angles_to_both() {
    let (a, b) = (normal(1, &[5, 3]), normal(2, &[3]));
    let y = cross(&a, &b, -1).unwrap();
    for v in [vecdot(&y, &a, -1).unwrap(), vecdot(&y, &b, -1).unwrap()] {
        v.to_f64_vec().into_iter().for_each(|v| near(v, 0.0));
    }
    near(at(&y, &[4, 0]), at(&a, &[4, 1]) * at(&b, &[2]) - at(&a, &[4, 2]) * at(&b, &[1]));
    assert_eq!(cross(&a, &a, 1).unwrap().to_f64_vec(), [0.0; 15]);
    let columns = normal(3, &[3, 5]);
    let turned = cross(&columns.transpose(None).unwrap(), &a, 1).unwrap();
    let along = cross(&columns, &a.transpose(None).unwrap(), 0).unwrap();
    assert_eq!(along.transpose(None).unwrap().to_f64_vec(), turned.to_f64_vec());
}

#[test]
fn a_trace_is_the_sum_of_a_diagonal() {
    let x = normal(1, &[4, 2, 4]);
    let y = trace(&x, DiagonalOptions::new().axis1(0).axis2(2).offset(1)).unwrap();
    assert_eq!(y.shape(), [2]);
    near(at(&y, &[1]), (0..3).map(|i| at(&x, &[i, 1, i + 1])).sum());
}

#[test]
fn they_are_differentiated_in_both_modes_and_twice() {
    let (a, b) = (normal(1, &[2, 3]), normal(2, &[3, 3]));
    type Function = fn(&(Tensor, Tensor)) -> Result<Tensor>;
    let functions: [(&str, Function); 5] = [
        ("tensordot", |(a, b)| tensordot(a, b, ([1], [0]))),
        ("vecdot", |(a, b)| vecdot(a, &b.slice(0, 0, 1, 1)?, -1)),
        ("kron", |(a, b)| kron(a, b)),
        ("cross", |(a, b)| cross(a, &b.slice(0, 0, 1, 1)?, -1)),
        ("trace", |(a, b)| trace(&a.matmul(b)?, 1)),
    ];
    for (name, f) in functions {
        let options = Options { order: 2, ..Options::named(name) };
        let report = check_grad(f, &(a.clone(), b.clone()), &options).unwrap();
        assert!(report.passed(), "{report}");
    }
}

#[test]
fn bad_axes_are_errors_that_say_so() {
    let (a, b) = (normal(1, &[2, 3]), normal(2, &[3, 4]));
    let error = |result: Result<Tensor>| result.unwrap_err().to_string();
    assert_eq!(
        error(tensordot(&a, &b, 2)),
        "tensordot: b has shape [3, 4], expected size 2 along axis 0, that of a along axis 0"
    );
    assert_eq!(
        error(tensordot(&a, &b, 3)),
        "tensordot: axes is Count(3), expected at most 2, the axes of either"
    );
    assert_eq!(error(tensordot(&a, &b, ([0, 0], [0, 1]))), "tensordot: axis 0 is named twice");
    assert_eq!(
        error(tensordot(&a, &b, ([5], [0]))),
        "tensordot: axis 5 is out of range for 2 dimensions"
    );
    assert_eq!(
        error(cross(&a, &b, -1)),
        "cross: shapes [2, 3] and [3, 4] do not broadcast: each pair of sizes, from the last axis on, must be equal or one of them 1"
    );
    assert_eq!(
        error(cross(&b, &b, -1)),
        "cross: a has shape [3, 4], expected size 3 along axis -1"
    );
    let masks = Tensor::ones([3], DType::Bool).unwrap();
    assert_eq!(
        error(kron(&masks, &masks)),
        "kron: a has dtype bool, expected a number type (not bool)"
    );
}

#[test]
fn a_chain_is_multiplied_from_its_small_end_and_the_layout_does_not_show() {
    let shapes = [[40, 3], [3, 50], [50, 2], [2, 60]];
    let chain: Vec<Tensor> = shapes.iter().zip(0..).map(|(s, k)| normal(k, s)).collect();
    let path = einsum_path("ab,bc,cd,de->ae", &chain).unwrap();
    let equations: Vec<&str> = path.steps.iter().map(|step| &*step.equation).collect();
    assert_eq!(equations, ["bc,cd->bd", "ab,bd->ad", "ad,de->ae"], "{path}");
    let y = einsum("ab,bc,cd,de->ae", &chain).unwrap();
    let other = |x: &Tensor| x.transpose(None)?.contiguous()?.transpose(None);
    let turned: Vec<Tensor> = chain.iter().map(|x| other(x).unwrap()).collect();
    let again = einsum("ab,bc,cd,de->ae", &turned).unwrap();
    assert_eq!(y.to_f64_vec(), again.to_f64_vec());
    let one =
        chain[0].matmul(&chain[1]).unwrap().matmul(&chain[2]).unwrap().matmul(&chain[3]).unwrap();
    y.to_f64_vec().into_iter().zip(one.to_f64_vec()).for_each(|(a, b)| near(a, b));
}

#[test]
fn a_view_is_all_that_a_diagonal_or_a_transpose_takes() {
    let x = normal(1, &[3, 3]);
    for equation in ["ij->ji", "ii->i", "...j->j..."] {
        assert!(einsum(equation, &[&x]).unwrap().shares_memory_with(&x), "{equation}");
    }
}

#[test]
fn products_of_several_in_reduced_precision_are_rounded_once() {
    // 2048 + 1 is no number of f16: rounded in between, the one would be lost.
    let row =
        |v: &[f64]| Tensor::from_vec(v.to_vec(), [v.len()]).unwrap().cast(DType::F16).unwrap();
    let (a, ones, three, one) = (row(&[2048.0, 1.0]), row(&[1.0, 1.0]), row(&[3.0]), row(&[1.0]));
    let calls: [(&str, &[&Tensor]); 3] = [
        ("i,i,j->j", &[&a, &ones, &three]),
        ("i,i,j,j->j", &[&a, &ones, &three, &one]),
        ("i,j->j", &[&a, &three]),
    ];
    for (equation, operands) in calls {
        assert_eq!(einsum(equation, operands).unwrap().to_f64_vec(), [6148.0], "{equation}");
    }
}
