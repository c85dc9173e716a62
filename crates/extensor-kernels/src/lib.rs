//! The CPU kernels of ExTensor: numbers in, numbers out.
//!
//! This crate knows slices, shapes and strides. It must not know what a tensor, an operation or a
//! derivative is. SIMD, threads and every `unsafe` of the CPU live here.

pub mod arena;
mod array;
pub mod attention;
pub mod bits;
pub mod buffer;
pub mod cast;
pub mod combine;
pub mod conv;
pub mod copy;
pub mod distance;
pub mod fused;
pub mod gemm;
pub mod index;
pub mod interpret;
pub mod isa;
#[cfg(feature = "linalg")]
pub mod linalg;
pub mod map;
pub mod masked;
pub mod math;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod native;
pub mod norm;
pub mod number;
pub mod par;
pub mod piece;
pub mod pool;
pub mod program;
pub mod random;
pub mod reduce;
pub mod reduced;
pub mod resample;
pub mod rows;
pub mod settings;
pub mod softmax;
pub mod sort;
mod steps;
pub mod stop;
mod stream;
pub mod symbol;
mod transpose;
pub mod unfold;
pub mod update;
pub mod view;
mod walk;
