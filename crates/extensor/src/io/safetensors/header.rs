//! The header of a safetensors file: names, dtypes, shapes and where the bytes are.
//!
//! Everything a file says of itself is checked here, before a tensor's bytes are read or memory is
//! taken for them; this module must not read them.

use super::checksum;
use crate::io::json::{Parsed, Reader, quote};
use crate::{DType, Shape};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The longest header, as in the format's own library.
pub(super) const LONGEST: u64 = 100_000_000;
const METADATA: &str = "__metadata__";

/// What a file says of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Its dtype as the file names it (`F32`, `BF16`, …), which may be one that we have not.
    pub stored_dtype: String,
    /// Its shape.
    pub shape: Shape,
    pub(super) start: u64,
    pub(super) end: u64,
    /// That of its bytes, if the file says one.
    pub(super) checksum: Option<u32>,
}

impl Info {
    /// Its dtype, if it is one of ours.
    pub fn dtype(&self) -> Option<DType> {
        DType::ALL.into_iter().find(|&dtype| name_of(dtype) == self.stored_dtype)
    }

    /// How many bytes it takes in the file.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// What the format calls a dtype.
pub(super) fn name_of(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "BOOL",
        DType::I8 => "I8",
        DType::I16 => "I16",
        DType::I32 => "I32",
        DType::I64 => "I64",
        DType::U8 => "U8",
        DType::U16 => "U16",
        DType::U32 => "U32",
        DType::U64 => "U64",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::F32 => "F32",
        DType::F64 => "F64",
    }
}

pub(super) struct Header {
    pub metadata: BTreeMap<String, String>,
    pub tensors: BTreeMap<String, Info>,
    /// Whether there are checksums.
    pub checked: bool,
}

/// What is wrong with a header, and with which tensor.
#[derive(Debug)]
pub(super) struct Fault {
    pub tensor: Option<String>,
    pub reason: String,
}

impl From<String> for Fault {
    fn from(reason: String) -> Fault {
        Fault { tensor: None, reason }
    }
}

impl Fault {
    fn of(tensor: &str, reason: impl Into<String>) -> Fault {
        Fault { tensor: Some(tensor.to_string()), reason: reason.into() }
    }
}

impl Header {
    /// Reads a header that `data` bytes of tensors follow.
    pub fn parse(text: &[u8], data: u64) -> Result<Header, Fault> {
        let text = std::str::from_utf8(text).map_err(|e| format!("the header is no text: {e}"))?;
        let mut reader = Reader::new(text);
        let mut header =
            Header { metadata: BTreeMap::new(), tensors: BTreeMap::new(), checked: false };
        let mut seen_metadata = false;
        reader.object(|reader, name| {
            if name == METADATA {
                if std::mem::replace(&mut seen_metadata, true) {
                    return Err(Fault::from("the header has its metadata twice".to_string()));
                }
                header.metadata = strings(reader)?;
                return Ok(());
            }
            let info = info(reader)
                .map_err(|reason| Fault::of(&name, format!("is described wrongly: {reason}")))?;
            info.check().map_err(|reason| Fault::of(&name, reason))?;
            if header.tensors.contains_key(&name) {
                return Err(Fault::of(&name, "is in the header twice"));
            }
            header.tensors.insert(name, info);
            Ok(())
        })?;
        reader.end()?;
        header.check_places(data)?;
        if let Some(sums) = header.metadata.remove(checksum::KEY) {
            header.set_checksums(text.as_bytes(), &sums)?;
        }
        Ok(header)
    }

    /// Compares the header's checksum, and gives the tensors theirs.
    fn set_checksums(&mut self, text: &[u8], sums: &str) -> Result<(), Fault> {
        let damaged = || Fault::from(checksum::DAMAGED.to_string());
        let (own, sums) = checksum::parse(sums).ok_or_else(damaged)?;
        if checksum::of_header(text) != Some(own) || sums.len() != self.tensors.len() {
            return Err(damaged());
        }
        let mut in_order: Vec<&mut Info> = self.tensors.values_mut().collect();
        in_order.sort_by_key(|info| (info.start, info.end));
        for (info, sum) in in_order.into_iter().zip(sums) {
            info.checksum = Some(sum);
        }
        self.checked = true;
        Ok(())
    }

    /// The tensors must fill the data without gaps and without sharing a byte.
    fn check_places(&self, data: u64) -> Result<(), Fault> {
        let mut in_order: Vec<_> = self.tensors.iter().collect();
        in_order.sort_by_key(|(_, info)| (info.start, info.end));
        let mut end = 0;
        let mut before = "";
        for (name, info) in in_order {
            if info.end > data {
                let Info { start, end, .. } = info;
                let reason = format!(
                    "is at bytes {start} to {end}, but the file has {data} bytes of tensors"
                );
                return Err(Fault::of(name, reason));
            }
            if info.start < end {
                return Err(Fault::of(name, format!("shares bytes with {before:?}")));
            }
            if info.start > end {
                let gap = info.start - end;
                return Err(Fault::of(
                    name,
                    format!("has {gap} bytes before it that belong to no tensor"),
                ));
            }
            (end, before) = (info.end, name);
        }
        if end < data {
            let reason = format!("{} bytes at its end belong to no tensor", data - end);
            return Err(Fault::from(reason));
        }
        Ok(())
    }

    /// The header as bytes, of tensors already in their order, padded to a multiple of 8.
    pub fn write(metadata: &BTreeMap<String, String>, tensors: &[(&str, Info)]) -> Vec<u8> {
        let mut text = String::from("{");
        let comma = |text: &mut String| {
            if text.len() > 1 {
                text.push(',');
            }
        };
        if !metadata.is_empty() {
            quote(&mut text, METADATA);
            text.push_str(":{");
            for (i, (name, value)) in metadata.iter().enumerate() {
                text.push_str(if i == 0 { "" } else { "," });
                quote(&mut text, name);
                text.push(':');
                quote(&mut text, value);
            }
            text.push('}');
        }
        for (name, Info { stored_dtype, shape, start, end, .. }) in tensors {
            comma(&mut text);
            quote(&mut text, name);
            let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
            let shape = shape.join(",");
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                r#":{{"dtype":"{stored_dtype}","shape":[{shape}],"data_offsets":[{start},{end}]}}"#
            );
        }
        text.push('}');
        let padded = text.len().next_multiple_of(8);
        text.extend(std::iter::repeat_n(' ', padded - text.len()));
        text.into_bytes()
    }

    /// Whether a tensor may have this name.
    pub fn is_free(name: &str) -> bool {
        name != METADATA
    }
}

fn strings(reader: &mut Reader<'_>) -> Result<BTreeMap<String, String>, Fault> {
    let mut all = BTreeMap::new();
    reader.object(|reader, name| {
        let value =
            reader.string().map_err(|e| format!("the metadata {name:?} is no string: {e}"))?;
        match all.insert(name.clone(), value) {
            None => Ok(()),
            Some(_) => Err(Fault::from(format!("the metadata {name:?} is there twice"))),
        }
    })?;
    Ok(all)
}

fn info(reader: &mut Reader<'_>) -> Parsed<Info> {
    let (mut dtype, mut shape, mut offsets) = (None, None, None);
    reader.object(|reader, field| {
        let twice = match field.as_str() {
            "dtype" => dtype.replace(reader.string()?).is_some(),
            "shape" => shape.replace(reader.numbers()?).is_some(),
            "data_offsets" => offsets.replace(reader.numbers()?).is_some(),
            _ => return Err(format!("it has an unknown field {field:?}")),
        };
        if twice { Err(format!("it has {field:?} twice")) } else { Ok(()) }
    })?;
    let stored_dtype = dtype.ok_or("it has no dtype")?;
    let sizes = shape.ok_or("it has no shape")?.into_iter().map(usize::try_from);
    let shape = sizes.collect::<Result<_, _>>().map_err(|_| "its shape is beyond this machine")?;
    match offsets.as_deref() {
        Some(&[start, end]) => Ok(Info { stored_dtype, shape, start, end, checksum: None }),
        _ => Err("its data_offsets are not two numbers".into()),
    }
}

impl Info {
    /// Shape, dtype and place must agree.
    fn check(&self) -> Parsed<()> {
        let Info { stored_dtype, shape, start, end, .. } = self;
        if end < start {
            return Err(format!("ends at byte {end}, before it starts at byte {start}"));
        }
        // What an unknown dtype takes is not known.
        let Some(dtype) = self.dtype() else {
            return Ok(());
        };
        let bytes = shape.checked_len().and_then(|len| u64::try_from(len * dtype.size()).ok());
        match bytes {
            None => {
                Err(format!("has shape {shape}, which has more elements than memory can address"))
            }
            Some(bytes) if bytes != end - start => Err(format!(
                "has {} bytes, but {stored_dtype} of shape {shape} takes {bytes}",
                end - start
            )),
            Some(_) => Ok(()),
        }
    }
}
