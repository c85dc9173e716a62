//! What the Python Array API standard 2025.12 asks of operations: the special values it lists, and
//! every dtype it names.

use extensor::ops::*;
use extensor::*;
use half::{bf16, f16};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// `f(a, b) = y` to the last bit, signs of zeros included; all NaNs are one.
fn holds(f: fn(&Tensor, &Tensor) -> Result<Tensor>, cases: &[(f64, f64, f64)]) {
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        for &(a, b, y) in cases {
            let [a, b, y] = [a, b, y].map(|v| Tensor::scalar_of(v, dtype).unwrap());
            let got = f(&a, &b).unwrap();
            assert_eq!(got.dtype(), dtype);
            let (got, want) = (got.to_f64_vec()[0], y.to_f64_vec()[0]);
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "{dtype}: f({a:?}, {b:?}) = {got}, not {want}");
        }
    }
}

#[test]
fn atan2_has_the_special_values_of_the_standard() {
    let quarters = [(INF, INF, FRAC_PI_4), (INF, -INF, 3.0 * FRAC_PI_4)];
    for (a, b, y) in quarters {
        holds(atan2, &[(a, b, y), (-a, b, -y)]);
    }
    holds(
        atan2,
        &[
            (NAN, 1.0, NAN),
            (1.0, NAN, NAN),
            (1.0, 0.0, FRAC_PI_2),
            (1.0, -0.0, FRAC_PI_2),
            (-1.0, 0.0, -FRAC_PI_2),
            (-1.0, -0.0, -FRAC_PI_2),
            (0.0, 1.0, 0.0),
            (0.0, 0.0, 0.0),
            (0.0, -0.0, PI),
            (0.0, -1.0, PI),
            (-0.0, 1.0, -0.0),
            (-0.0, 0.0, -0.0),
            (-0.0, -0.0, -PI),
            (-0.0, -1.0, -PI),
            (1.0, INF, 0.0),
            (1.0, -INF, PI),
            (-1.0, INF, -0.0),
            (-1.0, -INF, -PI),
            (INF, 1.0, FRAC_PI_2),
            (-INF, -1.0, -FRAC_PI_2),
        ],
    );
}

#[test]
fn hypot_logaddexp_and_copysign_have_the_special_values_of_the_standard() {
    holds(
        hypot,
        &[
            (INF, NAN, INF),
            (-INF, NAN, INF),
            (NAN, INF, INF),
            (NAN, -INF, INF),
            (INF, 1.0, INF),
            (NAN, 1.0, NAN),
            (1.0, NAN, NAN),
            (0.0, -0.0, 0.0),
            (3.0, -4.0, 5.0),
        ],
    );
    holds(
        logaddexp,
        &[
            (NAN, INF, NAN),
            (INF, NAN, NAN),
            (INF, INF, INF),
            (INF, -INF, INF),
            (-INF, INF, INF),
            (-INF, -INF, -INF),
            (-INF, 2.0, 2.0),
            (2.0, -INF, 2.0),
            (0.0, 0.0, LN_2),
        ],
    );
    holds(
        copysign,
        &[
            (1.0, -0.0, -1.0),
            (-1.0, 0.0, 1.0),
            (INF, -2.0, -INF),
            (0.0, -1.0, -0.0),
            (2.0, NAN.copysign(-1.0), -2.0),
            (-2.0, NAN.copysign(1.0), 2.0),
            (NAN, 1.0, NAN),
        ],
    );
    let nan = copysign(&tensor(NAN), &tensor(-1.0)).unwrap();
    assert!(signbit(&nan).unwrap().item::<bool>().unwrap());
}

#[test]
fn large_and_tiny_lengths_are_finite_and_their_gradients_are_directions() {
    let big = tensor([3e38f32, 3e-45]);
    let y = hypot(&big, &tensor([1e37f32, 4e-45])).unwrap().to_vec::<f32>().unwrap();
    assert!(y[0].is_finite() && y[1] > 0.0, "{y:?}");
    let a = tensor([3e38f32]);
    let (da, db) = hypot_backward(&tensor([1f32]), &a, &a).unwrap();
    for g in [da, db] {
        let g = g.to_vec::<f32>().unwrap()[0];
        assert!((g - 0.5f32.sqrt()).abs() < 1e-6, "{g}");
    }
}

#[test]
fn the_next_float_is_found_in_the_dtype_of_the_tensors() {
    holds(nextafter, &[(NAN, 1.0, NAN), (1.0, NAN, NAN), (0.0, -0.0, -0.0), (-0.0, 0.0, 0.0)]);
    let next = |x: Tensor| nextafter(&x, &cast(&tensor(9.0), x.dtype()).unwrap()).unwrap();
    let up = next(tensor([f16::from_f32(1.0)])).to_f64_vec()[0];
    assert_eq!(up, 1.0 + 2f64.powi(-10));
    let up = next(tensor([bf16::from_f32(1.0)])).to_f64_vec()[0];
    assert_eq!(up, 1.0 + 2f64.powi(-7));
    assert_eq!(next(tensor([1f32])).to_vec::<f32>().unwrap(), [1.0 + f32::EPSILON]);
    assert_eq!(next(tensor([-0f64])).to_vec::<f64>().unwrap(), [5e-324]);
}

#[test]
fn a_negative_shift_is_an_error_and_a_large_one_is_not() {
    for dtype in DType::INTS {
        let (x, far) =
            (Tensor::ones([2], dtype).unwrap(), Tensor::full([2], 100.0, dtype).unwrap());
        for f in [bitwise_left_shift, bitwise_right_shift] {
            assert_eq!(f(&x, &far).unwrap().to_f64_vec(), [0.0, 0.0]);
            if dtype.integer_range().0 < 0 {
                let error = f(&x, &Tensor::full([2], -1.0, dtype).unwrap()).unwrap_err();
                let text = error.to_string();
                assert!(text.contains("b is a tensor with one, expected no negative"), "{text}");
            }
        }
    }
}

#[test]
fn whole_numbers_of_every_type_keep_it_in_what_takes_numbers() {
    type Unary = fn(&Tensor) -> Result<Tensor>;
    let unary: [Unary; 8] = [abs, sign, ceil, floor, round, trunc, square, negate];
    for dtype in DType::INTS {
        let x = cast(&tensor([[3.0, 0.0], [1.0, 2.0]]), dtype).unwrap();
        for f in unary {
            assert_eq!(f(&x).unwrap().dtype(), dtype);
        }
        assert_eq!(round(&x).unwrap().to_f64_vec(), [3.0, 0.0, 1.0, 2.0]);
        assert_eq!(isnan(&x).unwrap().to_vec::<bool>().unwrap(), [false; 4]);
        assert_eq!(isinf(&x).unwrap().to_vec::<bool>().unwrap(), [false; 4]);
        assert_eq!(isfinite(&x).unwrap().to_vec::<bool>().unwrap(), [true; 4]);
        for y in [
            maximum(&x, &x),
            minimum(&x, &x),
            clip(&x, 1.0, 2.0),
            cumsum(&x, 0),
            cumprod(&x, 1),
            prod(&x, ..),
            sum(&x, over(1).keepdims(true)),
            max_reduce(&x, ..),
            min_reduce(&x, 0),
            tril(&x, 0),
            triu(&x, 0),
            where_(&tensor([true, false]), &x, &x),
            matmul(&x, &x),
            sort(&x, 0, Order::Descending),
            repeat(&x, [2], 1),
            roll(&x, [1], [0]),
        ] {
            assert_eq!(y.unwrap().dtype(), dtype);
        }
        assert_eq!(argmax(&x, None).unwrap().item::<i64>().unwrap(), 0);
        assert_eq!(argmin(&x, None).unwrap().item::<i64>().unwrap(), 1);
    }
    for dtype in DType::ALL {
        let x = cast(&tensor([[1, 0], [1, 1]]), dtype).unwrap();
        assert_eq!(any(&x, 1).unwrap().to_vec::<bool>().unwrap(), [true, true]);
        assert_eq!(all(&x, 1).unwrap().to_vec::<bool>().unwrap(), [false, true]);
        assert_eq!(less(&x, &x).unwrap().to_vec::<bool>().unwrap(), [false; 4]);
        assert_eq!(greater_equal(&x, &x).unwrap().to_vec::<bool>().unwrap(), [true; 4]);
        assert_eq!(
            argsort(&x, 1, Order::Ascending).unwrap().to_vec::<i64>().unwrap(),
            [1, 0, 0, 1]
        );
        let places = nonzero(&x).unwrap();
        assert_eq!(places[0].to_vec::<i64>().unwrap(), [0, 1, 1]);
        assert_eq!(places[1].to_vec::<i64>().unwrap(), [0, 0, 1]);
        let found = unique(&x).unwrap();
        assert_eq!(found.values.dtype(), dtype);
        assert_eq!(found.values.to_f64_vec(), [0.0, 1.0]);
        assert_eq!(found.counts.to_vec::<i64>().unwrap(), [1, 3]);
    }
}

#[test]
fn any_and_all_take_nan_for_true_and_negative_zero_for_false() {
    let x = tensor([NAN, -0.0]);
    assert!(any(&x, ..).unwrap().item::<bool>().unwrap());
    assert!(!all(&x, ..).unwrap().item::<bool>().unwrap());
}

#[test]
fn products_of_whole_numbers_wrap_and_are_not_differentiated() {
    let a = tensor([[100i8, 50], [-1, 2]]);
    let product = matmul(&a, &tensor([[2i16, 1], [1, 0]])).unwrap();
    assert_eq!(product.to_vec::<i16>().unwrap(), [250, 100, 0, -1]);
    let product = matmul(&a, &tensor([2i8, 1])).unwrap();
    assert_eq!(product.to_vec::<i8>().unwrap(), [-6, 0]);
    let error = matmul_backward(&product, &a, &tensor([2i8, 1])).unwrap_err().to_string();
    assert!(error.contains("it is not of a float dtype"), "{error}");
    let ints = autodiff::grad(|x| sum(&matmul(x, x)?, ..), &a).unwrap_err().to_string();
    assert!(ints.contains("it is not of a float dtype"), "{ints}");
}

#[test]
fn every_nan_is_a_value_of_its_own_and_zeros_are_one() {
    let x = tensor([NAN, 0.0, -1.0, -0.0, NAN, 2.0, -1.0]);
    let found = unique(&x).unwrap();
    let values = found.values.to_vec::<f64>().unwrap();
    assert_eq!(values[..3], [-1.0, 0.0, 2.0]);
    assert!(values.len() == 5 && values[3].is_nan() && values[4].is_nan());
    assert_eq!(found.indices.to_vec::<i64>().unwrap(), [2, 1, 5, 0, 4]);
    assert_eq!(found.inverse.to_vec::<i64>().unwrap(), [3, 1, 0, 1, 4, 2, 0]);
    assert_eq!(found.counts.to_vec::<i64>().unwrap(), [2, 2, 1, 1, 1]);
    let scalar = unique(&tensor(7)).unwrap();
    assert_eq!((scalar.values.shape(), scalar.inverse.shape()), (&[1][..].into(), &[][..].into()));
    let none = unique(&Tensor::zeros([0, 2], DType::F32).unwrap()).unwrap();
    assert_eq!((none.values.len(), none.inverse.shape().to_vec()), (0, vec![0, 2]));
}

#[test]
fn nothing_is_found_in_nothing_and_a_scalar_has_no_positions() {
    let found = nonzero(&Tensor::zeros([2, 0, 3], DType::I64).unwrap()).unwrap();
    assert_eq!(found.iter().map(Tensor::len).collect::<Vec<_>>(), [0, 0, 0]);
    let error = nonzero(&tensor(1.0)).unwrap_err().to_string();
    assert_eq!(error, "nonzero: x has shape [], expected at least one axis");
    let x = transpose(&tensor([[0.0, 1.0, -0.0], [2.0, 0.0, NAN]]), None).unwrap();
    assert_eq!(nonzero(&x).unwrap()[0].to_vec::<i64>().unwrap(), [0, 1, 2]);
    assert_eq!(nonzero(&x).unwrap()[1].to_vec::<i64>().unwrap(), [1, 0, 1]);
}

#[test]
fn descending_order_is_stable_and_puts_nan_first() {
    let x = tensor([1.0, NAN, 0.0, 1.0, -0.0, NAN]);
    let (values, indices) = sort_with_indices(&x, -1, Order::Descending).unwrap();
    assert_eq!(indices.to_vec::<i64>().unwrap(), [1, 5, 0, 3, 2, 4]);
    assert!(values.to_vec::<f64>().unwrap()[5].is_sign_negative());
    let ascending = argsort(&x, -1, Order::Ascending).unwrap();
    assert_eq!(ascending.to_vec::<i64>().unwrap(), [2, 4, 0, 3, 1, 5]);
}

#[test]
fn the_gradient_of_a_running_product_is_right_at_zeros() {
    let x = tensor([2.0, 0.0, 3.0, 0.0]);
    let dx = cumprod_backward(&tensor([1.0; 4]), &x, 0).unwrap();
    // y = (a, ab, abc, abcd): the sums of its derivatives by a, b, c and d.
    assert_eq!(dx.to_vec::<f64>().unwrap(), [1.0, 8.0, 0.0, 0.0]);
}

#[test]
fn what_has_no_derivative_runs_on_what_is_being_differentiated() {
    let x = tensor([3.0, -1.0, 2.0]);
    let dx = autodiff::grad(
        |x| {
            let order = argsort(x, 0, Order::Ascending)?;
            let places = searchsorted(&sort(x, 0, Order::Ascending)?, x, Side::Left)?;
            let negative = signbit(&nextafter(x, &tensor(-9.0))?)?;
            let weights = cast(&add(&order, &places)?, DType::F64)?;
            let found = unique(x)?;
            assert_eq!((found.values.len(), nonzero(x)?[0].len()), (3, 3));
            sum(&where_(&negative, x, &multiply(x, &weights)?)?, ..)
        },
        &x,
    );
    // The order is (1, 2, 0), the places are (2, 0, 1).
    assert_eq!(dx.unwrap().to_vec::<f64>().unwrap(), [3.0, 1.0, 1.0]);
}
