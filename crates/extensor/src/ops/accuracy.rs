//! How near the truth operations of one number are in `f32`: measured at all 2³² inputs, by
//! `extensor check --exhaustive --dtype f32`, which fails where a bound is exceeded; `tools/accuracy.py` writes
//! the lines.

use super::record::Record;

/// A bound on an error, in units in the last place, and the largest error found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// What is promised, on every machine.
    pub ulps: f64,
    /// The largest error found.
    pub worst: f64,
    /// The input at which it was found.
    pub at: f32,
}

/// How far a function of one number is from the truth in `f32`. Errors are counted as
/// [`Sweep`](crate::check::exhaustive::Sweep) says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// The operation.
    pub name: &'static str,
    /// Of the value.
    pub value: Bound,
    /// Of the first derivative; where the rule reads the output, of that as it was rounded.
    pub slope: Bound,
}

impl Record {
    /// How near the truth the operation is in `f32`, if it is a function of one number.
    pub fn accuracy(&self) -> Option<&'static Accuracy> {
        ACCURACY.iter().find(|row| row.name == self.name)
    }
}

/// `name: promised, found at input; promised, found at input`, of the value and of the derivative.
macro_rules! table {
    ($($name:literal: $value:literal, $worst:literal at $at:literal; $slope:literal, $steepest:literal at $there:literal;)*) => {
        &[$(Accuracy {
            name: $name,
            value: Bound { ulps: $value as f64, worst: $worst as f64, at: $at },
            slope: Bound { ulps: $slope as f64, worst: $steepest as f64, at: $there },
        },)*]
    };
}

static ACCURACY: &[Accuracy] = table! {
    "negate": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "exp": 1.5, 1.035 at 5.1998186; 0, 0.0 at 0.0;
    "exp2": 1, 0.64 at -0.49769488; 2, 1.382 at -0.49824038;
    "expm1": 1.5, 1.043 at 0.35435173; 1.5, 1.035 at 5.1998186;
    "log": 1, 0.955 at 0.7065256; 0.5, 0.5 at 2.3160559e-38;
    "log1p": 1, 0.955 at -0.29347438; 1.5, 1.5 at 0.00017255545;
    "log2": 1.5, 1.208 at 1.4049419; 1.5, 1.265 at 1.7483456e-38;
    "log10": 1.5, 1.103 at 1.3289176; 1.5, 1.261 at 2.0426345e-38;
    "sqrt": 0.5, 0.5 at 7.5231634e-37; 0.5, 0.5 at 1.140821e-38;
    "cbrt": 1, 0.68 at 3.3279036e-38; 2, 1.85 at 1.8253506e-38;
    "rsqrt": 1.5, 1.491 at 1.1827658e-38; 2, 1.95 at 1.3004138e-26;
    "square": 0.5, 0.5 at 9.3155e-10; 0, 0.0 at 0.0;
    "reciprocal": 0.5, 0.5 at 2.3160559e-38; 1.5, 1.205 at 7.680922e-20;
    "abs": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "sign": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "sin": 1, 0.778 at 13.405114; 1, 0.782 at 3.9182577;
    "cos": 1, 0.784 at 4386.425; 1, 0.778 at 13.405114;
    "tan": 1, 0.994 at 101882.63; 0.5, 0.5 at 0.00024414062;
    "asin": 1.5, 1.151 at 0.5111016; 2.5, 2.175 at 0.8651323;
    "acos": 1.5, 1.115 at 0.55801994; 2.5, 2.175 at 0.8651323;
    "atan": 1, 0.68 at 0.42377192; 1.5, 1.5 at 0.013136037;
    "sinh": 1, 0.882 at 0.34753856; 1, 0.875 at 0.0004566759;
    "cosh": 1, 0.875 at 0.0004566759; 1, 0.882 at 0.34753856;
    "asinh": 1, 0.999 at 0.24934262; 2, 1.985 at 0.0786508;
    "acosh": 1, 0.967 at 1.0299286; 4, 3.35 at 257.9022;
    "atanh": 1, 0.99 at 0.12235892; 2.5, 2.047 at 0.7067897;
    "erf": 2, 1.576 at 1.0020912; 3, 2.753 at 2.2791197;
    "erfc": 1, 0.952 at -0.003173309; 3, 2.753 at 2.2791197;
    "ceil": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "floor": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "round": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "trunc": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "logit": 2.5, 1.571 at 0.13072284; 2.5, 2.047 at 0.14660516;
    "sinc": 3, 2.917 at 0.02020942; 6, 4.116 at 1.3241549;
    "entr": 2, 1.746 at 0.7052091; 24, 19.779 at 0.35241672;
    "lgamma": 1, 0.5 at 3.079322e-20; 1, 0.5 at 0.39592367;
    "digamma": 1, 0.5 at 1.153036e18; 1, 0.773 at 0.0;
    "polygamma": 1, 0.5 at 131181.06; 1, 0.801 at 0.0;
    "erfinv": 1, 0.5 at 0.16482602; 1, 0.5 at 0.72593415;
    "ndtr": 1.5, 0.954 at 0.0044880356; 3, 2.722 at 1.5249147;
    "ndtri": 1, 0.5 at 8.703727e-39; 1, 0.5 at 3.4788734e-23;
    "log_ndtr": 1, 0.5 at -1074004000.0; 1, 0.5 at 0.006785733;
    "i0": 1, 0.5 at 6.9273233; 1, 0.5 at 0.054577075;
    "i0e": 1, 0.5 at 19.132078; 1, 0.5 at 0.00022648078;
    "i1": 1, 0.5 at 0.054577075; 1, 0.5 at 0.00069053395;
    "i1e": 1, 0.5 at 3.1449601e-6; 1, 0.5 at 15953837.0;
    "clip": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "relu": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "relu6": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "leaky_relu": 1, 0.84 at -3.9320454e-17; 0.5, 0.241 at 0.0;
    "elu": 2, 1.91 at -0.20459753; 2.5, 2.291 at -5.8660264;
    "selu": 2, 1.973 at -0.3331036; 2, 1.86 at -2.6463928;
    "sigmoid": 2.5, 2.402 at -4.157294; 1.5, 1.5 at -0.00077208877;
    "tanh": 3, 2.643 at 0.05997177; 0.5, 0.5 at 0.8814666;
    "gelu": 8, 7.97 at -2.1949313; 48, 39.297 at -0.7166251;
    "swish": 4, 3.193 at -7.6220517; 16, 14.917 at -1.1929953;
    "mish": 6, 4.653 at -6.7663307; 48, 39.402 at -1.3143604;
    "softplus": 2.5, 2.155 at -43.397408; 4, 2.583 at -15.594468;
    "softsign": 1.5, 1.5 at 2047.3749; 3, 2.977 at 0.0030978322;
    "log_sigmoid": 1.5, 1.004 at 1.2815614; 2.5, 2.402 at 4.157294;
    "hard_sigmoid": 1, 1.0 at 1.0000012; 0.5, 0.334 at 0.0;
    "hard_swish": 2, 1.872 at 1.3714979; 1, 1.0 at 0.5000006;
    "hard_tanh": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "celu": 2.5, 1.827 at -0.47931623; 3, 1.443 at -24.43086;
    "hardshrink": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "softshrink": 0.5, 0.5 at 4194305.0; 0, 0.0 at 0.0;
    "tanhshrink": 6, 4.677 at 0.1801476; 8, 5.637 at 0.06222645;
    "threshold": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
    "nan_to_num": 0, 0.0 at 0.0; 0, 0.0 at 0.0;
};
