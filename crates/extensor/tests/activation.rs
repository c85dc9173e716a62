//! Activations at the ends of their range, and dropout's masks.

use extensor::ops::operation::backward;
use extensor::ops::params::Params;
use extensor::ops::{cast, catalogue};
use extensor::{DType, Key, Tensor, tensor};

const FAR: f64 = f64::INFINITY;

/// An activation's limits at −∞ and ∞, and those of its derivative.
const LIMITS: &[(&str, [f64; 2], [f64; 2])] = &[
    ("relu", [0.0, FAR], [0.0, 1.0]),
    ("relu6", [0.0, 6.0], [0.0, 0.0]),
    ("leaky_relu", [-FAR, FAR], [0.01, 1.0]),
    ("elu", [-1.0, FAR], [0.0, 1.0]),
    ("selu", [-1.7580993408473766, FAR], [0.0, 1.0507009873554805]),
    ("sigmoid", [0.0, 1.0], [0.0, 0.0]),
    ("tanh", [-1.0, 1.0], [0.0, 0.0]),
    ("gelu", [0.0, FAR], [0.0, 1.0]),
    ("swish", [0.0, FAR], [0.0, 1.0]),
    ("mish", [0.0, FAR], [0.0, 1.0]),
    ("softplus", [0.0, FAR], [0.0, 1.0]),
    ("softsign", [-1.0, 1.0], [0.0, 0.0]),
    ("log_sigmoid", [-FAR, 0.0], [1.0, 0.0]),
    ("hard_sigmoid", [0.0, 1.0], [0.0, 0.0]),
    ("hard_swish", [0.0, FAR], [0.0, 1.0]),
    ("hard_tanh", [-1.0, 1.0], [0.0, 0.0]),
];

/// The name, x, and the function and its derivative there, from a computation with 400 digits.
const TAILS: &[(&str, f64, f64, f64)] = &[
    ("sigmoid", -10000.0, 0.0, 0.0),
    ("sigmoid", -600.5, 1.6075467697937942e-261, 1.6075467697937942e-261),
    ("sigmoid", -80.5, 1.0946977029531417e-35, 1.0946977029531417e-35),
    ("sigmoid", -12.5, 3.7266392841865614e-06, 3.7266253963462068e-06),
    ("sigmoid", -4.5, 0.01098694263059318, 0.010866229722225234),
    ("sigmoid", -0.5, 0.37754066879814546, 0.2350037122015945),
    ("sigmoid", 0.5, 0.6224593312018546, 0.2350037122015945),
    ("sigmoid", 12.5, 0.9999962733607158, 3.7266253963462068e-06),
    ("sigmoid", 80.5, 1.0, 1.0946977029531417e-35),
    ("tanh", -10000.0, -1.0, 0.0),
    ("tanh", -600.5, -1.0, 0.0),
    ("tanh", -80.5, -1.0, 4.7934522434035395e-70),
    ("tanh", -12.5, -0.9999999999722241, 5.555177545831308e-11),
    ("tanh", -4.5, -0.9997532108480275, 0.0004935173990593956),
    ("tanh", -0.5, -0.46211715726000974, 0.7864477329659274),
    ("gelu", -10000.0, 0.0, 0.0),
    ("gelu", -600.5, 0.0, 0.0),
    ("gelu", -80.5, 0.0, 0.0),
    ("gelu", -12.5, -4.665705373597142e-35, -5.831668554480156e-34),
    ("gelu", -4.5, -1.5289529061285272e-05, -6.852916185634458e-05),
    ("gelu", -0.5, -0.15426876936299344, 0.13250487534383715),
    ("gelu", 0.5, 0.34573123063700656, 0.8674951246561629),
    ("gelu", 12.5, 12.5, 1.0),
    ("gelu", 80.5, 80.5, 1.0),
    ("gelu tanh", -10000.0, 0.0, 0.0),
    ("gelu tanh", -600.5, 0.0, 0.0),
    ("gelu tanh", -80.5, 0.0, 0.0),
    ("gelu tanh", -12.5, -8.101996464473621e-69, -2.8327285098472606e-67),
    ("gelu tanh", -4.5, -5.13673741195865e-06, -2.9322270442755096e-05),
    ("gelu tanh", -0.5, -0.15428599017485609, 0.1326300964653577),
    ("gelu tanh", 0.5, 0.34571400982514394, 0.8673699035346423),
    ("gelu tanh", 12.5, 12.5, 1.0),
    ("gelu tanh", 80.5, 80.5, 1.0),
    ("swish", -10000.0, 0.0, 0.0),
    ("swish", -600.5, -9.653318352611735e-259, -9.637242884913797e-259),
    ("swish", -80.5, -8.812316508772791e-34, -8.702846738477476e-34),
    ("swish", -12.5, -4.658299105233202e-05, -4.2856178170141026e-05),
    ("swish", -4.5, -0.04944124183766931, -0.03791109111942038),
    ("swish", -0.5, -0.18877033439907273, 0.2600388126973482),
    ("swish", 0.5, 0.3112296656009273, 0.7399611873026518),
    ("swish", 12.5, 12.499953417008948, 1.0000428561781702),
    ("swish", 80.5, 80.5, 1.0),
    ("mish", -10000.0, 0.0, 0.0),
    ("mish", -600.5, -9.653318352611735e-259, -9.637242884913797e-259),
    ("mish", -80.5, -8.812316508772791e-34, -8.702846738477476e-34),
    ("mish", -12.5, -4.658307785133423e-05, -4.285634482357834e-05),
    ("mish", -4.5, -0.049712829307341215, -0.0383879124916281),
    ("mish", -0.5, -0.22074377465173, 0.2895106779135122),
    ("mish", 0.5, 0.37524521130489513, 0.8864243753577272),
    ("mish", 12.5, 12.499999999652804, 1.0000000006666137),
    ("mish", 80.5, 80.5, 1.0),
    ("softplus", -10000.0, 0.0, 0.0),
    ("softplus", -600.5, 1.6075467697937942e-261, 1.6075467697937942e-261),
    ("softplus", -80.5, 1.0946977029531417e-35, 1.0946977029531417e-35),
    ("softplus", -12.5, 3.7266462281239904e-06, 3.7266392841865614e-06),
    ("softplus", -4.5, 0.011047744848593817, 0.01098694263059318),
    ("softplus", -0.5, 0.4740769841801067, 0.37754066879814546),
    ("softplus", 0.5, 0.9740769841801067, 0.6224593312018546),
    ("softplus", 12.5, 12.500003726646229, 0.9999962733607158),
    ("softplus", 80.5, 80.5, 1.0),
    ("log_sigmoid", -10000.0, -10000.0, 1.0),
    ("log_sigmoid", -600.5, -600.5, 1.0),
    ("log_sigmoid", -80.5, -80.5, 1.0),
    ("log_sigmoid", -12.5, -12.500003726646229, 0.9999962733607158),
    ("log_sigmoid", -4.5, -4.511047744848594, 0.9890130573694068),
    ("log_sigmoid", -0.5, -0.9740769841801067, 0.6224593312018546),
    ("log_sigmoid", 0.5, -0.4740769841801067, 0.37754066879814546),
    ("log_sigmoid", 12.5, -3.7266462281239904e-06, 3.7266392841865614e-06),
    ("log_sigmoid", 80.5, -1.0946977029531417e-35, 1.0946977029531417e-35),
];
/// Which of the first numbers key 42 keeps at p = 0.3.
const FIRST: [u8; 16] = [1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];

/// An operation's result and gradient for a cotangent of ones.
fn both(name: &str, x: &Tensor, params: &Params) -> [Tensor; 2] {
    let record = catalogue::find(name).unwrap();
    let op = record.operation(params).unwrap();
    let y = record.call(&[x], params).unwrap().swap_remove(0);
    let g = y.ones_like().unwrap();
    let grads = backward(&*op, &[&g], &[x], &[&y], &[true]).unwrap();
    [y, grads[0].clone().unwrap()]
}

#[test]
fn infinite_numbers_give_the_limits_and_nan_gives_nan_in_every_dtype() {
    for (name, values, slopes) in LIMITS {
        for approximate in if *name == "gelu" { &[false, true][..] } else { &[false] } {
            let params = match *name {
                "gelu" => Params::new().with("approximate", *approximate),
                _ => Params::new(),
            };
            for dtype in DType::FLOATS {
                let far = dtype.max_finite();
                let x = [-FAR, FAR, f64::NAN, -far, far];
                let [y, d] = both(name, &cast(&tensor(x), dtype).unwrap(), &params);
                let (y, d) = (y.to_f64_vec(), d.to_f64_vec());
                let near = |got: f64, want: f64| {
                    got == want || (got - want).abs() <= 2.0 * dtype.epsilon() * want.abs()
                };
                for (i, (want, slope)) in values.iter().zip(slopes).enumerate() {
                    assert!(near(y[i], *want), "{name}({}) in {dtype} is {}", x[i], y[i]);
                    assert!(near(d[i], *slope), "{name}'({}) in {dtype} is {}", x[i], d[i]);
                    assert!(near(d[i + 3], *slope) || *name == "softsign", "{name}'({})", x[i + 3]);
                }
                assert!(y[2].is_nan() && d[2].is_nan(), "{name}(NaN) in {dtype}");
                // 1.05 times the largest number is beyond it.
                let values = if *name == "selu" { &y[3..4] } else { &y[3..] };
                assert!(values.iter().chain(&d[3..]).all(|v| v.is_finite()), "{name} in {dtype}");
            }
        }
    }
}

#[test]
fn both_tails_are_right_to_full_precision() {
    for &(name, x, value, slope) in TAILS {
        let (op, approximate) = match name {
            "gelu tanh" => ("gelu", true),
            name => (name, false),
        };
        let params = match op {
            "gelu" => Params::new().with("approximate", approximate),
            _ => Params::new(),
        };
        for dtype in [DType::F64, DType::F32] {
            // Normal numbers, all the way from the factor that they are made of.
            let least = if dtype == DType::F64 { 1e-305 } else { 1e-35 };
            let [y, d] = both(op, &cast(&tensor([x]), dtype).unwrap(), &params);
            for (what, got, want) in
                [("value", y.to_f64_vec()[0], value), ("slope", d.to_f64_vec()[0], slope)]
            {
                // Those from the output know no more than that does.
                let from_output = what == "slope" && (op == "tanh" || op == "sigmoid" && x > 0.0);
                let off = (got - want).abs();
                let bound = if from_output || want.abs() < least {
                    4.0 * dtype.epsilon()
                } else {
                    8.0 * dtype.epsilon() * want.abs()
                };
                assert!(off <= bound, "{name}: {what} at {x} in {dtype} is {got:e}, not {want:e}");
            }
        }
    }
}

#[test]
fn a_mask_is_the_same_everywhere_and_drops_its_share() {
    let x = Tensor::ones([1 << 20], DType::F32).unwrap();
    let (y, mask) = extensor::ops::dropout(&x, 0.3, Key::new(42)).unwrap();
    let kept = mask.to_vec::<bool>().unwrap();
    // The first numbers of the stream of key 42, and how many there are in all.
    let first: Vec<u8> = kept[..16].iter().map(|&k| u8::from(k)).collect();
    assert_eq!(first, FIRST);
    let share = kept.iter().filter(|k| **k).count() as f64 / kept.len() as f64;
    assert!((share - 0.7).abs() < 4.0 * (0.3f64 * 0.7 / kept.len() as f64).sqrt(), "{share}");
    let mean = y.to_f64_vec().iter().sum::<f64>() / kept.len() as f64;
    assert!((mean - 1.0).abs() < 0.003, "{mean}");
    for dtype in DType::FLOATS {
        let x = Tensor::full([1000], f64::NAN, dtype).unwrap();
        let (y, other) = extensor::ops::dropout(&x, 0.3, Key::new(42)).unwrap();
        assert_eq!(other.to_vec::<bool>().unwrap(), kept[..1000]);
        let dropped = y.to_f64_vec().iter().zip(&kept).all(|(y, kept)| y.is_nan() == *kept);
        assert!(dropped, "{dtype}");
    }
    let g = Tensor::ones([1 << 20], DType::F32).unwrap();
    let grad = extensor::ops::dropout_backward(&g, &mask, 0.3).unwrap();
    assert_eq!(grad.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap());
}

#[test]
fn channels_are_dropped_as_a_whole() {
    let x = Key::new(1).normal([8, 16, 3, 5], DType::F64).unwrap();
    let (y, mask) = extensor::ops::dropout2d(&x, 0.5, Key::new(9)).unwrap();
    assert_eq!(mask.shape(), [8, 16, 1, 1]);
    let kept = mask.to_vec::<bool>().unwrap();
    assert!((40..90).contains(&kept.iter().filter(|k| **k).count()));
    let (x, y) = (x.to_f64_vec(), y.to_f64_vec());
    for (i, kept) in kept.iter().enumerate() {
        for k in i * 15..(i + 1) * 15 {
            assert_eq!(y[k], if *kept { 2.0 * x[k] } else { 0.0 });
        }
    }
}

#[test]
fn dropout_outside_of_training_is_a_view_of_its_input() {
    let x = tensor([1.0, 2.0]);
    let params = Params::new().with("p", 0.5).with("key", 1).with("training", false);
    let outputs = catalogue::find("dropout").unwrap().call(&[&x], &params).unwrap();
    assert!(outputs[0].shares_memory_with(&x));
    assert_eq!(outputs[1].to_vec::<bool>().unwrap(), [true, true]);
}

#[test]
fn a_mask_that_does_not_fit_is_refused() {
    let g = Tensor::ones([2, 3, 4, 4], DType::F32).unwrap();
    let mask = Tensor::ones([2, 3], DType::Bool).unwrap();
    let error = extensor::ops::dropout_backward(&g, &mask, 0.5).unwrap_err().to_string();
    assert!(error.contains("mask has shape [2, 3], expected [2, 3, 4, 4]"), "{error}");
    let error = extensor::ops::dropout2d_backward(&g, &mask, 0.5).unwrap_err().to_string();
    assert!(error.contains("mask has shape [2, 3], expected [2, 3, 1, 1]"), "{error}");
    let error = extensor::ops::dropout_backward(&g, &g, 0.5).unwrap_err().to_string();
    assert!(error.contains("mask has dtype f32, expected bool"), "{error}");
}

#[test]
fn functions_that_rise_through_0_keep_its_sign() -> extensor::Result<()> {
    use extensor::ops::*;
    type Function = fn(&Tensor) -> extensor::Result<Tensor>;
    let functions: &[(&str, Function)] = &[
        ("gelu", |x| gelu(x, Approximate::None)),
        ("gelu by tanh", |x| gelu(x, Approximate::Tanh)),
        ("swish", |x| swish(x)),
        ("mish", |x| mish(x)),
        ("elu", |x| elu(x, 1.0)),
        ("selu", |x| selu(x)),
        ("leaky_relu", |x| leaky_relu(x, 0.01)),
        ("hard_swish", |x| hard_swish(x)),
        ("hard_tanh", |x| hard_tanh(x, -1.0, 1.0)),
        ("softsign", |x| softsign(x)),
        ("tanh", |x| tanh(x)),
        ("sin", |x| sin(x)),
        ("tan", |x| tan(x)),
        ("asin", |x| asin(x)),
        ("atan", |x| atan(x)),
        ("sinh", |x| sinh(x)),
        ("asinh", |x| asinh(x)),
        ("atanh", |x| atanh(x)),
        ("erf", |x| erf(x)),
        ("expm1", |x| expm1(x)),
        ("log1p", |x| log1p(x)),
        ("sqrt", |x| sqrt(x)),
    ];
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        // Long enough for the widest registers, and a rest.
        for zero in [0.0, -0.0] {
            let x = Tensor::full([77], zero, dtype)?;
            for (name, f) in functions {
                let y = f(&x)?.to_f64_vec();
                let kept = y.iter().all(|v| v.to_bits() == f64::to_bits(zero));
                assert!(kept, "{name} of {zero:?} in {dtype} is {:?}", y[0]);
            }
        }
    }
    // What vanishes below is still negative.
    let far = gelu(&tensor([-1e4, f64::NEG_INFINITY]), Approximate::None)?.to_vec::<f64>()?;
    assert!(far.iter().all(|y| *y == 0.0 && y.is_sign_negative()), "{far:?}");
    Ok(())
}
