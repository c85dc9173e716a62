//! Casts: rounded once, to nearest even; saturating towards whole numbers.

use super::*;
use half::{bf16, f16};

/// The values of a 16-bit float type, as `f64`, in order.
fn finite(of: impl Fn(u16) -> f64) -> Vec<f64> {
    let mut all: Vec<f64> = (0..=u16::MAX).map(of).filter(|v| v.is_finite()).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

#[test]
fn casting_to_16_bits_goes_to_the_nearest_value_and_the_even_one_of_two() {
    let types: [(DType, Vec<f64>); 2] = [
        (DType::F16, finite(|b| f16::from_bits(b).to_f64())),
        (DType::BF16, finite(|b| bf16::from_bits(b).to_f64())),
    ];
    for (dtype, values) in types {
        let (mut from, mut to) = (vec![], vec![]);
        for pair in values.windows(2) {
            let (low, high) = (pair[0], pair[1]);
            if low == high {
                continue;
            }
            let middle = low + (high - low) / 2.0;
            // The even one has a mantissa that is divisible by 2 in units of the spacing.
            let units = low / (high - low);
            let even = if units % 2.0 == 0.0 { low } else { high };
            // A hair beside the middle, far below what `f32` can tell.
            for (x, want) in
                [(low, low), (middle, even), (middle.next_down(), low), (middle.next_up(), high)]
            {
                from.push(x);
                to.push(want);
            }
        }
        let len = from.len();
        let x = Tensor::from_vec(from, [len]).unwrap();
        let got = cast(&x, dtype).unwrap().to_f64_vec();
        let wrong = got.iter().zip(&to).position(|(a, b)| a != b);
        if let Some(i) = wrong {
            panic!("{dtype}: {:e} became {:e}, not {:e}", x.to_f64_vec()[i], got[i], to[i]);
        }
        // Creation rounds by the same rule.
        for (&x, &want) in x.to_f64_vec().iter().zip(&to).step_by(97) {
            assert_eq!(Tensor::full([1], x, dtype).unwrap().to_f64_vec(), [want]);
        }
    }
}

#[test]
fn casting_rounds_as_this_table_says() {
    let tie = 1.0 + f64::powi(2.0, -11);
    let hair = f64::powi(2.0, -40);
    let f16s = [
        (tie, 1.0),
        (tie + hair, 1.0 + f64::powi(2.0, -10)),
        (-tie - hair, -1.0 - f64::powi(2.0, -10)),
        (tie - hair, 1.0),
        (65504.0, 65504.0),
        (65519.999, 65504.0),
        (65520.0, f64::INFINITY),
        (-1e300, f64::NEG_INFINITY),
        (f64::powi(2.0, -24), f64::powi(2.0, -24)),
        (f64::powi(2.0, -25), 0.0),
        (f64::powi(2.0, -25) * (1.0 + 1e-12), f64::powi(2.0, -24)),
        (5e-324, 0.0),
        (f64::INFINITY, f64::INFINITY),
    ];
    for (x, want) in f16s {
        assert_eq!(cast(&tensor([x]), DType::F16).unwrap().to_f64_vec(), [want], "{x:e}");
    }
    let zero = cast(&tensor([-0.0]), DType::F16).unwrap().to_vec::<f16>().unwrap()[0];
    assert!(zero.is_sign_negative());
    for dtype in DType::FLOATS {
        assert!(cast(&tensor([f64::NAN]), dtype).unwrap().to_f64_vec()[0].is_nan());
    }
    // 2⁶² + 2⁵⁴ is a tie in bf16; one more is not, though f64 cannot tell them apart.
    let (tie, spacing) = ((1i64 << 62) + (1 << 54), (1i64 << 55) as f64);
    let big = (1i64 << 62) as f64;
    let near = cast(&tensor([tie, tie + 1, -tie - 1]), DType::BF16).unwrap();
    assert_eq!(near.to_f64_vec(), [big, big + spacing, -big - spacing]);
    let near = cast(&tensor([tie as u64, tie as u64 + 1]), DType::BF16).unwrap();
    assert_eq!(near.to_f64_vec(), [big, big + spacing]);
    let near = cast(&tensor([u64::MAX]), DType::F32).unwrap();
    assert_eq!(near.to_f64_vec(), [f64::powi(2.0, 64)]);
    assert_eq!(
        cast(&tensor([100_000i64, -65519]), DType::F16).unwrap().to_f64_vec(),
        [f64::INFINITY, -65504.0]
    );
}

#[test]
fn casting_to_whole_numbers_saturates_and_truncates_as_rust_does() {
    let values = [
        1.9,
        -1.9,
        0.5,
        127.5,
        128.0,
        -129.0,
        255.9,
        300.0,
        -0.5,
        1e30,
        -1e30,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    macro_rules! check {
        ($($t:ty),*) => {$(
            for dtype in [DType::F64, DType::F32] {
                let x = cast(&tensor(values), dtype).unwrap();
                let want: Vec<$t> = x.to_f64_vec().iter().map(|&v| v as $t).collect();
                assert_eq!(cast(&x, <$t>::DTYPE).unwrap().to_vec::<$t>().unwrap(), want);
            }
            let x = tensor([i64::MIN, -1, 0, 1, 200, 300, 70_000, i64::MAX]);
            let want: Vec<$t> = x.to_vec::<i64>().unwrap().iter().map(|&v| v as $t).collect();
            assert_eq!(cast(&x, <$t>::DTYPE).unwrap().to_vec::<$t>().unwrap(), want);
            let x = tensor([0, 1, 200, u64::MAX]);
            let want: Vec<$t> = x.to_vec::<u64>().unwrap().iter().map(|&v| v as $t).collect();
            assert_eq!(cast(&x, <$t>::DTYPE).unwrap().to_vec::<$t>().unwrap(), want);
        )*};
    }
    check!(i8, i16, i32, i64, u8, u16, u32, u64);
}

#[test]
fn small_whole_numbers_survive_every_pair_of_dtypes_in_every_layout() {
    for from in DType::ALL {
        for to in DType::ALL {
            let x = cast(&tensor([[0i64, 1, 2], [3, 100, 127]]), from).unwrap();
            let want: Vec<f64> = match from == DType::Bool || to == DType::Bool {
                true => vec![0.0, 1.0, 1.0, 1.0, 1.0, 1.0],
                false => vec![0.0, 1.0, 2.0, 3.0, 100.0, 127.0],
            };
            assert_eq!(cast(&x, to).unwrap().to_f64_vec(), want, "{from} to {to}");
            assert_eq!(cast(&strided(&x), to).unwrap().to_f64_vec(), want, "{from} to {to}");
        }
    }
    let truth = cast(&tensor([0.0, -0.0, f64::NAN, 1e-300]), DType::Bool).unwrap();
    assert_eq!(truth.to_vec::<bool>().unwrap(), [false, false, true, true]);
}

#[test]
fn a_cast_is_differentiated_from_float_to_float_only() {
    let g = tensor([1.5f32, 2.0]);
    let back = cast_backward(&g, DType::F64).unwrap();
    assert_eq!(back.to_vec::<f64>().unwrap(), [1.5, 2.0]);
    assert!(message(cast_backward(&g, DType::I32)).contains("x: it is not of a float dtype"));
    let ints = tensor([1, 2]);
    assert!(
        message(cast_backward(&ints, DType::F64)).contains("the result is not of a float dtype")
    );
    let to_int = params::Params::new().with("dtype", "i32");
    let op = catalogue::find("cast").unwrap().operation(&to_int).unwrap();
    let (x, y) = (tensor([1.0, 2.0]), tensor([1, 2]));
    let along = forward_derivative(&*op, &[&x], &[&y], &[Some(&x)]);
    assert!(message(along).contains("the result is not of a float dtype"));
}

#[test]
fn casts_have_the_same_bits_for_any_number_of_threads() {
    let x = transpose(&Key::new(1).normal([700, 400], DType::F64).unwrap(), None).unwrap();
    for dtype in [DType::F16, DType::F32, DType::I8, DType::Bool] {
        let one = threads::with(1, || cast(&x, dtype).unwrap().to_f64_vec());
        let four = threads::with(4, || cast(&x, dtype).unwrap().to_f64_vec());
        assert!(one == four);
    }
}
