//! The header of a `.npy` file: a Python dictionary with dtype, order and shape.
//!
//! This module reads just the literals that NumPy writes there, and must not read the elements.

use super::Wrong;
use crate::{DType, Shape, Tensor};
use std::io::Read;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Far longer than that of any array.
const LONGEST: u64 = 1 << 20;

pub(super) struct Header {
    pub dtype: DType,
    pub big_endian: bool,
    pub fortran_order: bool,
    pub shape: Shape,
}

impl Header {
    /// The header, and how many bytes it takes.
    pub fn read(source: &mut dyn Read, length: u64) -> Result<(Header, u64), Wrong> {
        let mut first = [0; 8];
        if length < 10 {
            return Err(Wrong::Reason(format!("this is no .npy file: it has {length} bytes")));
        }
        source.read_exact(&mut first)?;
        if !first.starts_with(MAGIC) {
            return Err(Wrong::Reason(
                "this is no .npy file: it does not start with \\x93NUMPY".into(),
            ));
        }
        let wide = match first[6] {
            1 => false,
            2 | 3 => true,
            version => {
                return Err(Wrong::Reason(format!("its version is {version}, expected 1 to 3")));
            }
        };
        let mut size = [0; 4];
        source.read_exact(&mut size[..if wide { 4 } else { 2 }])?;
        let size = u64::from(u32::from_le_bytes(size));
        let before = if wide { 12 } else { 10 };
        if size > LONGEST.min(length.saturating_sub(before)) {
            return Err(Wrong::Reason(format!(
                "its header should be {size} bytes long, and the file has {length}"
            )));
        }
        let mut text = vec![0; size as usize];
        source.read_exact(&mut text)?;
        let text = std::str::from_utf8(&text).map_err(|e| format!("its header is no text: {e}"))?;
        let header = Literals { rest: text }.header()?;
        Ok((header, before + size))
    }
}

/// What is before the elements of a tensor, a multiple of 64 bytes long.
pub(super) fn bytes(x: &Tensor) -> Vec<u8> {
    let sizes: Vec<String> = x.shape().iter().map(|size| format!("{size},")).collect();
    // One size keeps its comma, several lose the last.
    let sizes = sizes.join(" ");
    let sizes = if x.ndim() == 1 { &sizes } else { sizes.trim_end_matches(',') };
    let descr = descr(x.dtype());
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let wide = text.len() + 64 > usize::from(u16::MAX);
    let before = if wide { 12 } else { 10 };
    let whole = (before + text.len() + 1).next_multiple_of(64);
    text.extend(std::iter::repeat_n(' ', whole - before - text.len() - 1));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([if wide { 2 } else { 1 }, 0]);
    // No shape is 4 GiB long: there would be no memory for it.
    let size = (text.len() as u32).to_le_bytes();
    bytes.extend(&size[..if wide { 4 } else { 2 }]);
    bytes.extend(text.as_bytes());
    bytes
}

fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::F16 => "<f2",
        DType::BF16 => "<V2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
    }
}

/// Reads Python literals one after the other.
struct Literals<'a> {
    rest: &'a str,
}

impl<'a> Literals<'a> {
    fn header(mut self) -> Result<Header, String> {
        let (mut dtype, mut order, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.skip('}') {
            let name = self.string()?;
            self.expect(':')?;
            match name {
                "descr" => dtype = Some(self.dtype()?),
                "fortran_order" => order = Some(self.boolean()?),
                "shape" => shape = Some(self.shape()?),
                _ => return Err(format!("its header has an unknown field {name:?}")),
            }
            if !self.skip(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest.trim().is_empty() {
            return Err(self.wrong("its end"));
        }
        let missing = |field: &str| format!("its header has no {field:?}");
        let (dtype, big_endian) = dtype.ok_or_else(|| missing("descr"))?;
        let fortran_order = order.ok_or_else(|| missing("fortran_order"))?;
        let shape = shape.ok_or_else(|| missing("shape"))?;
        Ok(Header { dtype, big_endian, fortran_order, shape })
    }

    fn wrong(&self, expected: &str) -> String {
        let found: String = self.rest.chars().take(12).collect();
        format!("its header has {found:?}, expected {expected}")
    }

    fn skip(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.skip(c) { Ok(()) } else { Err(self.wrong(&format!("{c:?}"))) }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        for quote in ['\'', '"'] {
            if self.skip(quote) {
                let (text, rest) =
                    self.rest.split_once(quote).ok_or_else(|| self.wrong("a string's end"))?;
                self.rest = rest;
                return Ok(text);
            }
        }
        Err(self.wrong("a string"))
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.rest = self.rest.trim_start();
        for (text, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(text) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.wrong("True or False"))
    }

    fn shape(&mut self) -> Result<Shape, String> {
        let mut sizes = Vec::new();
        self.expect('(')?;
        while !self.skip(')') {
            self.rest = self.rest.trim_start();
            let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
            let size = self.rest[..digits].parse::<usize>();
            sizes.push(size.map_err(|_| self.wrong("a size"))?);
            // Python 2 wrote long numbers with an L.
            self.rest = self.rest[digits..].trim_start_matches('L');
            if !self.skip(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(Shape::from(sizes))
    }

    /// The dtype, and whether its most significant byte comes first.
    fn dtype(&mut self) -> Result<(DType, bool), String> {
        let text = self.string().map_err(|e| format!("{e}: records are not read"))?;
        let unknown = || format!("its dtype is {text:?}, which there is not here");
        let (order, kind) = text.split_at_checked(1).ok_or_else(unknown)?;
        let known = DType::ALL.into_iter().find(|&dtype| descr(dtype)[1..] == *kind);
        let dtype = known.ok_or_else(unknown)?;
        match order {
            ">" => Ok((dtype, true)),
            "<" => Ok((dtype, false)),
            // No order: one byte, or two of no type.
            "|" if dtype.size() == 1 || dtype == DType::BF16 => Ok((dtype, false)),
            "=" => Ok((dtype, cfg!(target_endian = "big"))),
            _ => Err(unknown()),
        }
    }
}
