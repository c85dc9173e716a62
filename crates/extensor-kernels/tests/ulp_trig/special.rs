//! Zeros, infinities, the ends of domains, and what is not a number.

use extensor_kernels::math::*;

/// The value at each special argument, for one type.
macro_rules! special_values {
    ($test:ident, $float:ident) => {
        #[test]
        fn $test() {
            use std::$float::consts::*;
            const INFINITY: $float = $float::INFINITY;
            const NAN: $float = $float::NAN;
            let same =
                |a: $float, b: $float| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            let odd: &[(&str, fn($float) -> $float, $float, $float)] = &[
                ("sin", sin, INFINITY, NAN),
                ("tan", tan, INFINITY, NAN),
                ("sin_lane", sin_lane, INFINITY, NAN),
                ("tan_lane", tan_lane, INFINITY, NAN),
                ("asin", asin, 1.0, FRAC_PI_2),
                ("asin", asin, 1.5, NAN),
                ("asin", asin, INFINITY, NAN),
                ("atan", atan, 1.0, FRAC_PI_4),
                ("atan", atan, $float::MAX, FRAC_PI_2),
                ("atan", atan, INFINITY, FRAC_PI_2),
                ("erf", erf, INFINITY, 1.0),
            ];
            for &(name, f, x, y) in odd {
                assert!(same(f(x), y) && same(f(-x), -y), "{name} {x} is {}", f(x));
                assert!(same(f(0.0), 0.0) && same(f(-0.0), -0.0), "{name} at zero");
                assert!(f(NAN).is_nan() && f(-$float::from_bits(!0 >> 1)).is_nan(), "{name} NaN");
            }
            let other: &[(&str, fn($float) -> $float, $float, $float)] = &[
                ("cos", cos, 0.0, 1.0),
                ("cos", cos, -0.0, 1.0),
                ("cos", cos, -INFINITY, NAN),
                ("cos_lane", cos_lane, INFINITY, NAN),
                ("acos", acos, 1.0, 0.0),
                ("acos", acos, 0.0, FRAC_PI_2),
                ("acos", acos, -1.0, PI),
                ("acos", acos, -1.5, NAN),
                ("erfc", erfc, 0.0, 1.0),
                ("erfc", erfc, INFINITY, 0.0),
                ("erfc", erfc, -INFINITY, 2.0),
                ("normal_cdf", normal_cdf, 0.0, 0.5),
                ("normal_cdf", normal_cdf, -0.0, 0.5),
                ("normal_cdf", normal_cdf, INFINITY, 1.0),
                ("normal_cdf", normal_cdf, -INFINITY, 0.0),
            ];
            for &(name, f, x, y) in other {
                assert!(same(f(x), y), "{name} {x} is {}", f(x));
                assert!(f(NAN).is_nan() && f(-$float::from_bits(!0 >> 1)).is_nan(), "{name} NaN");
            }
            for (y, x, angle) in [
                (0.0, 0.0, 0.0),
                (0.0, -0.0, PI),
                (0.0, -1.0, PI),
                (1.0, 0.0, FRAC_PI_2),
                (1.0, -0.0, FRAC_PI_2),
                (INFINITY, 3.0, FRAC_PI_2),
                (3.0, INFINITY, 0.0),
                (3.0, -INFINITY, PI),
                (INFINITY, INFINITY, FRAC_PI_4),
                (INFINITY, -INFINITY, 3.0 * FRAC_PI_4),
                (NAN, INFINITY, NAN),
                (INFINITY, NAN, NAN),
            ] {
                assert!(same(atan2(y, x), angle) && same(atan2(-y, x), -angle), "{y} {x}");
            }
        }
    };
}

special_values!(special_arguments_have_the_values_that_c_gives_them_in_f32, f32);
special_values!(special_arguments_have_the_values_that_c_gives_them_in_f64, f64);
