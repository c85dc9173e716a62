//! Products of tiles by AMX.
//!
//! The instructions are written out, for the compiler knows none of them. What is in the tile
//! registers is no concern of the compiler's: between the making of a [`Configured`] and its end they
//! hold what the last instruction left there, and nothing outside is expected to be kept.

use super::{Multiply, TILE};
use std::arch::asm;
use std::marker::PhantomData;

/// Eight tiles of 16 rows of 64 bytes, as the instruction reads it: the palette, 15 bytes of nothing,
/// the bytes of a row of each tile (room for 16), the rows of each (likewise).
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start: u8,
    nothing: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

static CONFIGURATION: Configuration = Configuration {
    palette: 1,
    start: 0,
    nothing: [0; 14],
    bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// While it lives, the calling thread has tiles; it cannot go to another.
pub(super) struct Configured(PhantomData<*const ()>);

impl Configured {
    /// # Safety
    /// The machine must have [`Unit::Amx`](crate::isa::Unit::Amx).
    pub(super) unsafe fn new() -> Configured {
        // SAFETY: 64 bytes are read, which are a configuration.
        unsafe {
            asm!(
                "ldtilecfg [{0}]", in(reg) &CONFIGURATION,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags, readonly),
            );
        }
        Configured(PhantomData)
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: there are tiles.
        unsafe {
            asm!(
                "tilerelease",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags, nomem),
            );
        }
    }
}

/// Instructions that use any of the tiles.
macro_rules! tiles {
    ($($line:literal)*; $($operand:tt)*) => {
        asm!(
            $($line,)*
            $($operand)*
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, preserves_flags),
        )
    };
}

impl Multiply for Configured {
    #[inline(always)]
    unsafe fn multiply(
        &self,
        (a, a_step, a_groups): (*const u32, usize, usize),
        (b, b_step, b_groups): (*const u32, usize, usize),
        depth: usize,
        add: bool,
        sums: *mut f32,
    ) {
        // B is read once before A is read again, and A should stay in the first-level cache: hence the
        // hint in the name of the instruction that loads B.
        macro_rules! run {
            ($($zero:literal)*; $($load:literal)*; $($step:literal)*; $($store:literal)*) => {
                // SAFETY: `depth` tiles are read of each group that the instructions name, and as
                // many squares read and written as there are products of groups, by the caller's
                // promise.
                unsafe {
                    if add {
                        tiles!($($load)*; to = in(reg) sums, row = in(reg) 64usize,);
                    } else {
                        tiles!($($zero)*;);
                    }
                    for tile in 0..depth {
                        let (a, b) = (a.add(tile * TILE), b.add(tile * TILE));
                        tiles!(
                            $($step)*;
                            a = in(reg) a, a1 = in(reg) a.wrapping_add(a_step),
                            b = in(reg) b, b1 = in(reg) b.wrapping_add(b_step),
                            row = in(reg) 64usize,
                        );
                    }
                    tiles!($($store)*; to = in(reg) sums, row = in(reg) 64usize,);
                }
            };
        }
        match (a_groups, b_groups) {
            (1, 1) => run!(
                "tilezero tmm0";
                "tileloadd tmm0, [{to} + {row}]";
                "tileloaddt1 tmm4, [{b} + {row}]"
                "tileloadd tmm6, [{a} + {row}]"
                "tdpbf16ps tmm0, tmm6, tmm4"
                "/* {a1} {b1} */";
                "tilestored [{to} + {row}], tmm0"
            ),
            (1, _) => run!(
                "tilezero tmm0" "tilezero tmm1";
                "tileloadd tmm0, [{to} + {row}]"
                "tileloadd tmm1, [{to} + {row} + 1024]";
                "tileloaddt1 tmm4, [{b} + {row}]"
                "tileloaddt1 tmm5, [{b1} + {row}]"
                "tileloadd tmm6, [{a} + {row}]"
                "tdpbf16ps tmm0, tmm6, tmm4"
                "tdpbf16ps tmm1, tmm6, tmm5"
                "/* {a1} */";
                "tilestored [{to} + {row}], tmm0"
                "tilestored [{to} + {row} + 1024], tmm1"
            ),
            (_, 1) => run!(
                "tilezero tmm0" "tilezero tmm2";
                "tileloadd tmm0, [{to} + {row}]"
                "tileloadd tmm2, [{to} + {row} + 2048]";
                "tileloaddt1 tmm4, [{b} + {row}]"
                "tileloadd tmm6, [{a} + {row}]"
                "tileloadd tmm7, [{a1} + {row}]"
                "tdpbf16ps tmm0, tmm6, tmm4"
                "tdpbf16ps tmm2, tmm7, tmm4"
                "/* {b1} */";
                "tilestored [{to} + {row}], tmm0"
                "tilestored [{to} + {row} + 2048], tmm2"
            ),
            _ => run!(
                "tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3";
                "tileloadd tmm0, [{to} + {row}]"
                "tileloadd tmm1, [{to} + {row} + 1024]"
                "tileloadd tmm2, [{to} + {row} + 2048]"
                "tileloadd tmm3, [{to} + {row} + 3072]";
                "tileloaddt1 tmm4, [{b} + {row}]"
                "tileloaddt1 tmm5, [{b1} + {row}]"
                "tileloadd tmm6, [{a} + {row}]"
                "tileloadd tmm7, [{a1} + {row}]"
                "tdpbf16ps tmm0, tmm6, tmm4"
                "tdpbf16ps tmm1, tmm6, tmm5"
                "tdpbf16ps tmm2, tmm7, tmm4"
                "tdpbf16ps tmm3, tmm7, tmm5";
                "tilestored [{to} + {row}], tmm0"
                "tilestored [{to} + {row} + 1024], tmm1"
                "tilestored [{to} + {row} + 2048], tmm2"
                "tilestored [{to} + {row} + 3072], tmm3"
            ),
        }
    }
}
