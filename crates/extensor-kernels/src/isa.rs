//! Which instructions the machine has, and loops compiled once for each set of them.
//!
//! A kernel is written once as plain generic code in [`Kernel::run`]. [`dispatch`] has it compiled
//! for every [`Isa`] and calls the copy that suits the machine, so the compiler vectorises the same
//! source for 128-, 256- and 512-bit registers. Every copy uses fused multiply-add where the source
//! says [`mul_add`](f32::mul_add), so the copies agree to the last bit.
//!
//! What a processor has for products of `bf16` numbers alone is a [`Unit`], which only `gemm` asks
//! for.

use crate::settings::settings;
use std::sync::atomic::{AtomicU8, Ordering};

/// A set of instructions that a kernel is compiled for, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// What every processor of the architecture has.
    Base = 1,
    /// x86-64-v3: AVX2, FMA, F16C.
    V3 = 2,
    /// x86-64-v4: AVX-512 F, BW, CD, DQ, VL.
    V4 = 3,
}

/// What multiplies `bf16` numbers, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Unit {
    /// Nothing: they are widened.
    None = 1,
    /// Dot products of pairs, AVX512-BF16, beside [`Isa::V4`].
    Bf16 = 2,
    /// Products of tiles, AMX, beside the dot products.
    Amx = 3,
}

static CURRENT: AtomicU8 = AtomicU8::new(0);

/// The instruction set in use: the best the machine has, or less if the environment variable
/// `EXTENSOR_ISA` says `base` or `v3` (so that one machine can test every copy); see
/// [`settings`](crate::settings).
#[inline]
pub fn isa() -> Isa {
    match CURRENT.load(Ordering::Relaxed) {
        1 => Isa::Base,
        2 => Isa::V3,
        3 => Isa::V4,
        _ => detect(),
    }
}

static CURRENT_UNIT: AtomicU8 = AtomicU8::new(0);

/// The unit in use: the fastest the machine has and the system lends, or less if `EXTENSOR_ISA` says so
/// (`v4` or weaker: none; `bf16`: no tiles, but dot products wherever there are any).
#[inline]
pub fn unit() -> Unit {
    match CURRENT_UNIT.load(Ordering::Relaxed) {
        1 => Unit::None,
        2 => Unit::Bf16,
        3 => Unit::Amx,
        _ => detect_unit(),
    }
}

#[cold]
fn detect_unit() -> Unit {
    let found = if isa() < Isa::V4 { Unit::None } else { best_unit(settings().unit) };
    CURRENT_UNIT.store(found as u8, Ordering::Relaxed);
    found
}

/// The best unit, up to `limit` if there is one, of a machine that has [`Isa::V4`].
///
/// Dot products of pairs must be asked for on processors of Intel's, which begin one in two cycles
/// where they begin two fused multiply-adds in each: those are faster.
#[cfg(target_arch = "x86_64")]
fn best_unit(limit: Option<Unit>) -> Unit {
    if limit == Some(Unit::None) || !is_x86_feature_detected!("avx512bf16") {
        Unit::None
    } else if limit != Some(Unit::Bf16) && amx::is_there() {
        Unit::Amx
    } else if limit == Some(Unit::Bf16) || !is_intel() {
        Unit::Bf16
    } else {
        Unit::None
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn best_unit(_: Option<Unit>) -> Unit {
    Unit::None
}

#[cfg(target_arch = "x86_64")]
fn is_intel() -> bool {
    #[allow(unused_unsafe, reason = "newer compilers call it safe")]
    // SAFETY: every x86-64 processor has the instruction and leaf 0.
    let maker = unsafe { std::arch::x86_64::__cpuid(0) };
    [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
}

/// The units that the machine has, whatever the environment says.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) fn units() -> Vec<Unit> {
    let mut units = vec![best_unit(Some(Unit::Bf16)), best_unit(Some(Unit::Amx))];
    units.retain(|&unit| best() == Isa::V4 && unit > Unit::None);
    units.dedup();
    units
}

/// Whether tiles can be used.
#[cfg(target_arch = "x86_64")]
mod amx {
    use std::arch::x86_64::{__cpuid_count, _xgetbv};

    pub(super) fn is_there() -> bool {
        // Leaf 7 says what the processor has: AMX-BF16 is bit 22, AMX-TILE bit 24.
        const BITS: u32 = 1 << 22 | 1 << 24;
        #[allow(unused_unsafe, reason = "newer compilers call it safe")]
        // SAFETY: every x86-64 processor has the instruction; one with AVX-512 has the leaf.
        let found = unsafe { __cpuid_count(7, 0) }.edx;
        found & BITS == BITS && is_enabled() && is_lent()
    }

    /// Whether the system saves the tiles and their configuration when threads change.
    fn is_enabled() -> bool {
        #[target_feature(enable = "xsave")]
        fn enabled() -> u64 {
            // SAFETY: register 0 is there wherever the instruction is.
            unsafe { _xgetbv(0) }
        }
        const STATES: u64 = 1 << 17 | 1 << 18;
        // SAFETY: AVX-512 was found, which is only looked for where the instruction is there.
        is_x86_feature_detected!("xsave") && unsafe { enabled() } & STATES == STATES
    }

    /// Asks the system, which lends the tiles to processes that ask.
    #[cfg(target_os = "linux")]
    fn is_lent() -> bool {
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        // SAFETY: the call reads and writes no memory of ours.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    }

    #[cfg(not(target_os = "linux"))]
    fn is_lent() -> bool {
        false
    }
}

#[cold]
fn detect() -> Isa {
    let limit = settings().isa.unwrap_or(Isa::V4);
    let found = best().min(limit);
    CURRENT.store(found as u8, Ordering::Relaxed);
    found
}

#[cfg(target_arch = "x86_64")]
fn best() -> Isa {
    let v3 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt");
    let v4 = v3
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    if v4 {
        Isa::V4
    } else if v3 {
        Isa::V3
    } else {
        Isa::Base
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn best() -> Isa {
    Isa::Base
}

/// A piece of work to be compiled for every instruction set.
///
/// `run` and all it calls must be `#[inline(always)]`: code that is not inlined into the copy is
/// not compiled for its instruction set.
pub trait Kernel {
    /// What the work returns.
    type Output;
    /// Does the work.
    fn run(self) -> Self::Output;

    /// Does the same work in a way that is quick to compile: for x86-64 without FMA, where every
    /// fused multiply-add is a function call and wide registers would gain nothing.
    #[inline(always)]
    fn run_plainly(self) -> Self::Output
    where
        Self: Sized,
    {
        self.run()
    }
}

/// Runs `kernel`, compiled for the best instruction set the machine has.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match isa() {
        // SAFETY: `isa` returns V4 only where every feature that `run_v4` enables was detected.
        Isa::V4 => unsafe { run_v4(kernel) },
        // SAFETY: likewise for V3 and `run_v3`.
        Isa::V3 => unsafe { run_v3(kernel) },
        Isa::Base => kernel.run_plainly(),
    }
    #[cfg(not(target_arch = "x86_64"))]
    kernel.run()
}

/// Runs `kernel`, compiled for 256-bit registers at most: for work that gains little from wider
/// ones and comes in many types, each copy of which takes time to compile.
#[inline]
pub fn dispatch_narrow<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    if isa() >= Isa::V3 {
        // SAFETY: `isa` returns V3 or more only where every feature that `run_v3` enables was
        // detected.
        unsafe { run_v3(kernel) }
    } else {
        kernel.run_plainly()
    }
    #[cfg(not(target_arch = "x86_64"))]
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn run_v4<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn run_v3<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}
