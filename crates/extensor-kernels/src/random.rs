//! Random bits from a counter: Philox 4×32-10 (Salmon et al., 2011).
//!
//! Block number `counter` of the stream named by `key` is a pure function of the two, so numbers
//! can be drawn in any order and on any number of threads and are the same on every machine.

/// Four random words.
#[inline]
pub fn philox(key: u64, counter: u128) -> [u32; 4] {
    let mut c =
        [counter as u32, (counter >> 32) as u32, (counter >> 64) as u32, (counter >> 96) as u32];
    let (mut k0, mut k1) = (key as u32, (key >> 32) as u32);
    for _ in 0..10 {
        let a = u64::from(c[0]) * 0xD251_1F53;
        let b = u64::from(c[2]) * 0xCD9E_8D57;
        c = [(b >> 32) as u32 ^ c[1] ^ k0, b as u32, (a >> 32) as u32 ^ c[3] ^ k1, a as u32];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    c
}

/// Two random 64-bit words.
#[inline]
pub fn words(key: u64, block: u64) -> [u64; 2] {
    let [a, b, c, d] = philox(key, u128::from(block));
    [u64::from(a) << 32 | u64::from(b), u64::from(c) << 32 | u64::from(d)]
}

/// Evenly distributed in `[0, 1)`: a multiple of 2⁻⁵³.
#[inline]
pub fn unit(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Two independent standard normal numbers, by the method of Box and Muller.
#[inline]
pub fn normal_pair([a, b]: [u64; 2]) -> [f64; 2] {
    // In (0, 1], so that the logarithm is finite.
    let radius = (-2.0 * crate::math::log(1.0 - unit(a))).sqrt();
    let angle = std::f64::consts::TAU * unit(b);
    [radius * crate::math::cos(angle), radius * crate::math::sin(angle)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_test_vectors() {
        assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox(u64::MAX, u128::MAX),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        let key = 0x299f_31d0_a409_3822;
        let counter = 0x0370_7344_1319_8a2e_85a3_08d3_243f_6a88;
        assert_eq!(philox(key, counter), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }
}
