//! Products of tiles by AMX.
//!
//! The instructions are written out, for the compiler knows none of them. What is in the tile
//! registers is no concern of the compiler's: between the making of a [`Configured`] and its end they
//! hold what the last instruction left there, and nothing outside is expected to be kept.

use super::super::Element;
use super::finish::Unfinished;
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
    unsafe fn multiply<O: Element>(
        &self,
        (a, a_step, a_groups): (*const u32, usize, usize),
        (b, b_step, b_groups): (*const u32, usize, usize),
        depth: usize,
        to: *mut f32,
        before: &mut Unfinished<O>,
    ) {
        let rows = before.rows().div_ceil(depth);
        // A is read once before B is read again, and B should stay in the first-level cache: hence the
        // hint in the name of the instruction that loads A.
        macro_rules! run {
            ($($zero:literal)*; $($step:literal)*; $($store:literal)*) => {
                // SAFETY: `depth` tiles, at least one, are read of each group that the instructions
                // name, and as many written as there are products of groups, by the caller's promise.
                unsafe {
                    tiles!($($zero)*;);
                    for tile in 0..depth {
                        let (a, b) = (a.add(tile * TILE), b.add(tile * TILE));
                        tiles!(
                            $($step)*;
                            a = in(reg) a, a1 = in(reg) a.wrapping_add(a_step),
                            b = in(reg) b, b1 = in(reg) b.wrapping_add(b_step),
                            row = in(reg) 64usize,
                        );
                        // The tiles take their time.
                        before.advance(rows);
                    }
                    tiles!($($store)*; to = in(reg) to, row = in(reg) 64usize,);
                }
            };
        }
        match (a_groups, b_groups) {
            (1, 1) => run!(
                "tilezero tmm0";
                "tileloaddt1 tmm4, [{a} + {row}]"
                "tileloadd tmm6, [{b} + {row}]"
                "tdpbf16ps tmm0, tmm4, tmm6"
                "/* {a1} {b1} */";
                "tilestored [{to} + {row}], tmm0"
            ),
            (1, _) => run!(
                "tilezero tmm0" "tilezero tmm1";
                "tileloaddt1 tmm4, [{a} + {row}]"
                "tileloadd tmm6, [{b} + {row}]"
                "tileloadd tmm7, [{b1} + {row}]"
                "tdpbf16ps tmm0, tmm4, tmm6"
                "tdpbf16ps tmm1, tmm4, tmm7"
                "/* {a1} */";
                "tilestored [{to} + {row}], tmm0"
                "tilestored [{to} + {row} + 1024], tmm1"
            ),
            (_, 1) => run!(
                "tilezero tmm0" "tilezero tmm2";
                "tileloaddt1 tmm4, [{a} + {row}]"
                "tileloaddt1 tmm5, [{a1} + {row}]"
                "tileloadd tmm6, [{b} + {row}]"
                "tdpbf16ps tmm0, tmm4, tmm6"
                "tdpbf16ps tmm2, tmm5, tmm6"
                "/* {b1} */";
                "tilestored [{to} + {row}], tmm0"
                "tilestored [{to} + {row} + 2048], tmm2"
            ),
            _ => run!(
                "tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3";
                "tileloaddt1 tmm4, [{a} + {row}]"
                "tileloaddt1 tmm5, [{a1} + {row}]"
                "tileloadd tmm6, [{b} + {row}]"
                "tileloadd tmm7, [{b1} + {row}]"
                "tdpbf16ps tmm0, tmm4, tmm6"
                "tdpbf16ps tmm2, tmm5, tmm6"
                "tdpbf16ps tmm1, tmm4, tmm7"
                "tdpbf16ps tmm3, tmm5, tmm7";
                "tilestored [{to} + {row}], tmm0"
                "tilestored [{to} + {row} + 1024], tmm1"
                "tilestored [{to} + {row} + 2048], tmm2"
                "tilestored [{to} + {row} + 3072], tmm3"
            ),
        }
    }
}
