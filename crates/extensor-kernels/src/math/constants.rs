//! The constants of the exponentials, logarithms and powers.
//!
//! `tools/minimax.py` finds the polynomials and says how.

use super::Float;

/// A format's constants. Of a pair, the second is what the first lacks.
pub trait Constants: Float {
    /// `P` in `e^r = 1 + r + r^2 P(r)`, for `|r| <= 0.3469`.
    const EXP: &'static [Self];
    /// The same, for a sum that is rounded in one part.
    const EXP_ONE_PART: &'static [Self];
    /// `P` in `2^r = 1 + r log 2 + r^2 P(r)`, for `|r| <= 0.5005`.
    const EXP2: &'static [Self];
    /// `Q` in `2 atanh(s) = 2 s + s z Q(z)` where `z = s^2`, for `z <= 0.0295`.
    const LOG: &'static [Self];
    /// `Q` in `2 atanh(s) / log 2 = s (FIRST + z (SECOND + z Q(z)))` where `z = s^2`, likewise.
    const LOG2_REST: &'static [Self];
    /// `2 / log 2`.
    const LOG2_FIRST: (Self, Self);
    /// `2 / (3 log 2)`.
    const LOG2_SECOND: (Self, Self);
    /// `log 2`.
    const LN_2: (Self, Self);
    /// `1 / log 2`.
    const LOG2_E: (Self, Self);
    /// `1 / log 10`.
    const LOG10_E: (Self, Self);
    /// `log 2`, the first of so few bits that its product with any exponent is exact.
    const LN_2_SPLIT: (Self, Self);
    /// `log 2 / log 10`, likewise.
    const LOG10_2_SPLIT: (Self, Self);
}

impl Constants for f32 {
    // Relative error of e^r - 1: 2^-28.7.
    const EXP: &'static [f32] =
        &[0.5, 0.166_666_67, 0.041_666_355, 0.008_333_273, 0.001_394_110_1, 0.000_199_142_8];
    // Relative error of e^r: 2^-27.8.
    const EXP_ONE_PART: &'static [f32] =
        &[0.499_999_94, 0.166_665_2, 0.041_668_393, 0.008_368_778, 0.001_381_462];
    // Relative error of 2^r: 2^-28.0.
    const EXP2: &'static [f32] =
        &[0.240_226_48, 0.055_503_62, 0.009_618_527, 0.001_339_027_1, 0.000_153_211_6];
    // Relative error of the logarithm: 2^-30.0.
    const LOG: &'static [f32] = &[0.666_667_76, 0.399_775, 0.298_729_78];
    // Relative error of the logarithm: 2^-38.9.
    const LOG2_REST: &'static [f32] = &[0.577_078, 0.412_204_86, 0.320_068_54, 0.280_767_8];
    const LOG2_FIRST: (f32, f32) = (2.885_39, 3.851_926e-8);
    const LOG2_SECOND: (f32, f32) = (0.961_796_7, -7.028_462e-9);
    const LN_2: (f32, f32) = (std::f32::consts::LN_2, -1.904_654_2e-9);
    const LOG2_E: (f32, f32) = (std::f32::consts::LOG2_E, 1.925_963e-8);
    const LOG10_E: (f32, f32) = (std::f32::consts::LOG10_E, -1.010_305e-8);
    const LN_2_SPLIT: (f32, f32) = (0.693_145_75, 1.428_606_8e-6);
    const LOG10_2_SPLIT: (f32, f32) = (0.301_025_4, 4.605_039e-6);
}

impl Constants for f64 {
    // Relative error of e^r - 1: 2^-60.8.
    const EXP: &'static [f64] = &[
        0.5,
        0.166_666_666_666_666_77,
        0.041_666_666_666_666_7,
        0.008_333_333_333_321_534,
        0.001_388_888_888_886_657_2,
        0.000_198_412_698_863_950_32,
        0.000_024_801_587_361_042_95,
        2.755_724_391_843_786e-6,
        2.755_724_236_388_383e-7,
        2.510_914_482_291_977_2e-8,
        2.092_456_141_365_578e-9,
    ];
    // Relative error of e^r: 2^-56.5.
    const EXP_ONE_PART: &'static [f64] = &[
        0.500_000_000_000_001_1,
        0.166_666_666_666_664_1,
        0.041_666_666_666_529_21,
        0.008_333_333_333_495_525,
        0.001_388_888_894_391_492_5,
        0.000_198_412_695_049_319_6,
        0.000_024_801_492_771_464_362,
        2.755_758_722_822_126_3e-6,
        2.763_037_532_318_508e-7,
        2.499_999_193_822_008e-8,
    ];
    // Relative error of 2^r: 2^-57.2.
    const EXP2: &'static [f64] = &[
        0.240_226_506_959_101_22,
        0.055_504_108_664_820_73,
        0.009_618_129_107_596_749,
        0.001_333_355_814_668_795_8,
        0.000_154_035_304_544_090_8,
        0.000_015_252_733_545_501_77,
        1.321_543_641_964_216_8e-6,
        1.017_818_499_524_345e-7,
        7.073_614_655_910_98e-9,
        4.436_290_059_844_041_4e-10,
    ];
    // Relative error of the logarithm: 2^-59.0.
    const LOG: &'static [f64] = &[
        0.666_666_666_666_673_5,
        0.399_999_999_994_114_2,
        0.285_714_287_432_055_07,
        0.222_221_984_809_907_12,
        0.181_835_695_066_758_04,
        0.153_139_087_771_940_8,
        0.147_974_551_616_477_5,
    ];
    // Relative error of the logarithm: 2^-65.8.
    const LOG2_REST: &'static [f64] = &[
        0.577_078_016_355_585_3,
        0.412_198_583_111_253_96,
        0.320_598_897_931_944_74,
        0.262_308_196_600_298_4,
        0.221_952_395_041_828_26,
        0.192_397_011_188_279_32,
        0.168_530_920_687_377_85,
        0.172_212_435_206_112_65,
    ];
    const LOG2_FIRST: (f64, f64) = (2.885_390_081_777_926_8, 4.071_054_748_186_206_6e-17);
    const LOG2_SECOND: (f64, f64) = (0.961_796_693_925_975_6, 5.057_761_664_812_590_7e-17);
    const LN_2: (f64, f64) = (std::f64::consts::LN_2, 2.319_046_813_846_299_6e-17);
    const LOG2_E: (f64, f64) = (std::f64::consts::LOG2_E, 2.035_527_374_093_103_3e-17);
    const LOG10_E: (f64, f64) = (std::f64::consts::LOG10_E, 1.098_319_650_216_765e-17);
    const LN_2_SPLIT: (f64, f64) = (0.693_147_180_559_890_3, 5.497_923_018_708_371e-14);
    const LOG10_2_SPLIT: (f64, f64) = (0.301_029_995_663_952_83, 2.836_339_455_104_496_4e-14);
}
