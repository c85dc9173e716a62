//! From one dtype to another. A number goes through one of four wide types, as the kernels' module
//! of the same name says.

use super::{Call, Kernel, Kind};
use crate::{DType, Result};
use extensor_kernels::cast::{Read, Target, Truth, cast, reader};
use extensor_kernels::native::Native;
use half::{bf16, f16};
use std::sync::Arc;

/// The numbers in the dtype of the output, rounded once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast;

impl Kernel for Cast {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (x, to) = (call.inputs[0], call.dtype());
        match x.dtype() {
            DType::F16 if to.is_float() => real(&mut call, &reader::<f16, f32>(x.view())),
            DType::BF16 if to.is_float() => real(&mut call, &reader::<bf16, f32>(x.view())),
            DType::F32 if to.is_float() => real(&mut call, &reader::<f32, f32>(x.view())),
            DType::F16 => from_f64(&mut call, &reader::<f16, f64>(x.view())),
            DType::BF16 => from_f64(&mut call, &reader::<bf16, f64>(x.view())),
            DType::F32 => from_f64(&mut call, &reader::<f32, f64>(x.view())),
            DType::F64 => from_f64(&mut call, &reader::<f64, f64>(x.view())),
            DType::Bool => whole(&mut call, &reader::<Truth, i64>(x.view())),
            DType::I8 => whole(&mut call, &reader::<i8, i64>(x.view())),
            DType::I16 => whole(&mut call, &reader::<i16, i64>(x.view())),
            DType::I32 => whole(&mut call, &reader::<i32, i64>(x.view())),
            DType::I64 => whole(&mut call, &reader::<i64, i64>(x.view())),
            DType::U8 => whole(&mut call, &reader::<u8, i64>(x.view())),
            DType::U16 => whole(&mut call, &reader::<u16, i64>(x.view())),
            DType::U32 => whole(&mut call, &reader::<u32, i64>(x.view())),
            DType::U64 => whole(&mut call, &reader::<u64, u64>(x.view())),
        }
        Ok(())
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Cast
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

/// Writes the numbers read as elements of type `T`.
fn write<W: Native, T: Target<W>>(call: &mut Call<'_, '_>, read: &dyn Read<W>) {
    cast::<W, T>(read, call.out());
}

/// From a float type that `f32` holds to any float type.
fn real(call: &mut Call<'_, '_>, read: &dyn Read<f32>) {
    match call.dtype() {
        DType::F16 => write::<f32, f16>(call, read),
        DType::BF16 => write::<f32, bf16>(call, read),
        DType::F32 => write::<f32, f32>(call, read),
        _ => write::<f32, f64>(call, read),
    }
}

/// From any float type to a narrower one, to a whole-number type or to bool.
fn from_f64(call: &mut Call<'_, '_>, read: &dyn Read<f64>) {
    match call.dtype() {
        DType::Bool => write::<f64, Truth>(call, read),
        DType::I8 => write::<f64, i8>(call, read),
        DType::I16 => write::<f64, i16>(call, read),
        DType::I32 => write::<f64, i32>(call, read),
        DType::I64 => write::<f64, i64>(call, read),
        DType::U8 => write::<f64, u8>(call, read),
        DType::U16 => write::<f64, u16>(call, read),
        DType::U32 => write::<f64, u32>(call, read),
        DType::U64 => write::<f64, u64>(call, read),
        DType::F16 => write::<f64, f16>(call, read),
        DType::BF16 => write::<f64, bf16>(call, read),
        DType::F32 => write::<f64, f32>(call, read),
        DType::F64 => write::<f64, f64>(call, read),
    }
}

/// From a whole-number type to any other: the low bits of one that is no wider are the same for
/// signed and unsigned.
fn whole<W: Native>(call: &mut Call<'_, '_>, read: &dyn Read<W>)
where
    Truth: Target<W>,
    u8: Target<W>,
    u16: Target<W>,
    u32: Target<W>,
    u64: Target<W>,
    f16: Target<W>,
    bf16: Target<W>,
    f32: Target<W>,
    f64: Target<W>,
{
    match call.dtype() {
        DType::Bool => write::<W, Truth>(call, read),
        DType::I8 | DType::U8 => write::<W, u8>(call, read),
        DType::I16 | DType::U16 => write::<W, u16>(call, read),
        DType::I32 | DType::U32 => write::<W, u32>(call, read),
        DType::I64 | DType::U64 => write::<W, u64>(call, read),
        DType::F16 => write::<W, f16>(call, read),
        DType::BF16 => write::<W, bf16>(call, read),
        DType::F32 => write::<W, f32>(call, read),
        DType::F64 => write::<W, f64>(call, read),
    }
}
