//! The part of ZIP that `.npz` files use: entries stored or deflated, with sizes beyond 4 GiB.
//!
//! Every offset and size is checked against the file before it is used. This module must not know
//! what is in an entry.

use super::Wrong;
use flate2::{Crc, bufread::DeflateDecoder};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;
/// Stands in a 32-bit field for a number that is given in 64 bits elsewhere.
const LARGE: u32 = u32::MAX;
/// Deflate makes at most 1032 bytes of one.
const RATIO: u64 = 1032;

/// A file in an archive.
#[derive(Debug)]
pub(super) struct Entry {
    pub name: String,
    /// Its size when unpacked.
    pub size: u64,
    packed: u64,
    crc: u32,
    deflated: bool,
    offset: u64,
}

/// Little-endian numbers from a slice; nothing beyond its end.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn number(&mut self, bytes: usize) -> Result<u64, Wrong> {
        let Some((head, rest)) = self.0.split_at_checked(bytes) else {
            return Err(Wrong::Reason("its directory is cut off".into()));
        };
        self.0 = rest;
        Ok(head.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
    }
    fn small(&mut self) -> Result<u16, Wrong> {
        Ok(self.number(2)? as u16)
    }
    fn word(&mut self) -> Result<u32, Wrong> {
        Ok(self.number(4)? as u32)
    }
    fn skip(&mut self, bytes: usize) -> Result<&[u8], Wrong> {
        let cut = || Wrong::Reason("its directory is cut off".into());
        let (head, rest) = self.0.split_at_checked(bytes).ok_or_else(cut)?;
        self.0 = rest;
        Ok(head)
    }
}

fn read_at(file: &mut (impl Read + Seek), at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut read = vec![0; bytes];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut read)?;
    Ok(read)
}

/// The entries of an archive.
pub(super) fn entries(file: &mut (impl Read + Seek)) -> Result<Vec<Entry>, Wrong> {
    let length = file.seek(SeekFrom::End(0))?;
    let (offset, size) = directory(file, length)?;
    if offset.checked_add(size).is_none_or(|end| end > length) {
        return Err(Wrong::Reason("its directory lies beyond its end".into()));
    }
    let bytes = read_at(file, offset, size as usize)?;
    let mut fields = Fields(&bytes);
    let mut entries = Vec::new();
    while !fields.0.is_empty() {
        entries.push(entry(&mut fields, length)?);
    }
    Ok(entries)
}

/// Where the directory is: it ends with a record at the end of the file, before a comment.
fn directory(file: &mut (impl Read + Seek), length: u64) -> Result<(u64, u64), Wrong> {
    let tail = length.min(22 + u64::from(u16::MAX));
    let bytes = read_at(file, length - tail, tail as usize)?;
    let is_end = |at: &usize| bytes[*at..].starts_with(&END.to_le_bytes());
    let found = (0..bytes.len().saturating_sub(21)).rev().find(is_end);
    let at =
        found.ok_or_else(|| Wrong::Reason("this is no .npz file: it has no directory".into()))?;
    let mut end = Fields(&bytes[at + 12..]);
    let (size, offset) = (end.word()?, end.word()?);
    if size != LARGE && offset != LARGE {
        return Ok((u64::from(offset), u64::from(size)));
    }
    let before = at.checked_sub(20).map(|at| &bytes[at..]);
    let mut locator = Fields(before.unwrap_or_default());
    let lost = || Wrong::Reason("its directory's 64-bit record is missing".into());
    if locator.word()? != LOCATOR64 {
        return Err(lost());
    }
    locator.word()?;
    let at = locator.number(8)?;
    if at.checked_add(56).is_none_or(|end| end > length) {
        return Err(lost());
    }
    let record = read_at(file, at, 56)?;
    let mut record = Fields(&record);
    if record.word()? != END64 {
        return Err(lost());
    }
    record.skip(36)?;
    let (size, offset) = (record.number(8)?, record.number(8)?);
    Ok((offset, size))
}

fn entry(fields: &mut Fields<'_>, length: u64) -> Result<Entry, Wrong> {
    if fields.word()? != CENTRAL {
        return Err(Wrong::Reason("its directory is damaged".into()));
    }
    fields.skip(4)?;
    let (flags, method) = (fields.small()?, fields.small()?);
    fields.skip(4)?;
    let crc = fields.word()?;
    // Packed size, size and offset.
    let mut numbers = [fields.word()?, fields.word()?, 0].map(u64::from);
    let [name, extra, comment] =
        [fields.small()?, fields.small()?, fields.small()?].map(usize::from);
    fields.skip(8)?;
    numbers[2] = fields.number(4)?;
    let name = String::from_utf8_lossy(fields.skip(name)?).into_owned();
    let mut extra = Fields(fields.skip(extra)?);
    while !extra.0.is_empty() {
        let (id, size) = (extra.small()?, usize::from(extra.small()?));
        let mut field = Fields(extra.skip(size)?);
        if id == 1 {
            // Size, packed size and offset, those that did not fit.
            for i in [1, 0, 2] {
                if numbers[i] == u64::from(LARGE) {
                    numbers[i] = field.number(8)?;
                }
            }
        }
    }
    fields.skip(comment)?;
    let [packed, size, offset] = numbers;
    let wrong = |reason: &str| Err(Wrong::Reason(format!("its entry {name:?} {reason}")));
    if flags & 1 != 0 {
        return wrong("is encrypted");
    }
    let deflated = match method {
        0 => false,
        8 => true,
        _ => return wrong("is packed in a way that is not known here"),
    };
    let most = if deflated { packed.saturating_mul(RATIO) } else { packed };
    if packed > length || size > most || (!deflated && size != packed) {
        return wrong("has a size that cannot be");
    }
    Ok(Entry { name, size, packed, crc, deflated, offset })
}

impl Entry {
    /// Hands the unpacked bytes to `read`, and compares their checksum if it takes all.
    pub fn read<T>(
        &self,
        file: &mut (impl Read + Seek),
        read: impl FnOnce(&mut dyn Read) -> Result<T, Wrong>,
    ) -> Result<T, Wrong> {
        let local = read_at(file, self.offset, 30)?;
        let mut fields = Fields(&local);
        if fields.word()? != LOCAL {
            return Err(Wrong::Reason("it is not where the directory says".into()));
        }
        fields.skip(22)?;
        let skip = u64::from(fields.small()?) + u64::from(fields.small()?);
        file.seek_relative(skip as i64)?;
        let packed = BufReader::with_capacity(1 << 16, file.by_ref().take(self.packed));
        let bytes: Box<dyn Read + '_> =
            if self.deflated { Box::new(DeflateDecoder::new(packed)) } else { Box::new(packed) };
        let mut summed = Summed { bytes: bytes.take(self.size), crc: Crc::new() };
        let value = read(&mut summed)?;
        if summed.crc.sum() != self.crc {
            return Err(Wrong::Reason("it is damaged: its checksum is wrong".into()));
        }
        Ok(value)
    }
}

/// Sums what is read through it.
struct Summed<R> {
    bytes: R,
    crc: Crc,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let got = self.bytes.read(out)?;
        self.crc.update(&out[..got]);
        Ok(got)
    }
}

/// Counts and sums what is written to it, and keeps nothing.
#[derive(Default)]
struct Measure {
    size: u64,
    crc: Crc,
}

impl Write for Measure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.size += bytes.len() as u64;
        self.crc.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes an archive of stored entries to a stream.
pub(super) struct Writer<'a> {
    file: &'a mut dyn Write,
    at: u64,
    directory: Vec<u8>,
    count: u64,
}

fn low(n: u64) -> [u8; 4] {
    u32::try_from(n).unwrap_or(LARGE).to_le_bytes()
}

impl<'a> Writer<'a> {
    pub fn new(file: &'a mut dyn Write) -> Writer<'a> {
        Writer { file, at: 0, directory: Vec::new(), count: 0 }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Adds an entry, which `fill` writes twice: to be measured, and to the file.
    pub fn entry(
        &mut self,
        name: &str,
        fill: impl Fn(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let long = |_| io::Error::other("a name is longer than 65535 bytes");
        let name_size = u16::try_from(name.len()).map_err(long)?.to_le_bytes();
        let mut measure = Measure::default();
        fill(&mut measure)?;
        let (size, crc, offset) = (measure.size, measure.crc.sum().to_le_bytes(), self.at);
        let large = size >= u64::from(LARGE) || offset >= u64::from(LARGE);
        // 4.5 of the format where 64 bits are needed, else 2.0; names in UTF-8, stored, 1 January 1980.
        let version = [if large { 45 } else { 20 }, 0];
        let fixed = [0, 0b1000, 0, 0, 0, 0, 0x21, 0];
        let mut extra = Vec::new();
        let shown = |n: u64| if large { LARGE.to_le_bytes() } else { low(n) };
        if large {
            extra.extend([1, 0, 16, 0]);
            extra.extend([size.to_le_bytes(), size.to_le_bytes()].concat());
        }
        let sizes = [shown(size), shown(size)].concat();
        let [extra_size, wide_size] = [extra.len() as u16, if large { 28 } else { 0 }];
        let parts: [&[u8]; 8] = [
            &LOCAL.to_le_bytes(),
            &version,
            &fixed,
            &crc,
            &sizes,
            &name_size,
            &extra_size.to_le_bytes(),
            name.as_bytes(),
        ];
        self.put(&parts.concat())?;
        self.put(&extra)?;
        fill(self.file)?;
        self.at += size;

        if large {
            extra[2] = 24;
            extra.extend(offset.to_le_bytes());
        }
        let parts: [&[u8]; 11] = [
            &CENTRAL.to_le_bytes(),
            &version,
            &version,
            &fixed,
            &crc,
            &sizes,
            &name_size,
            &wide_size.to_le_bytes(),
            &[0; 10],
            &shown(offset),
            name.as_bytes(),
        ];
        self.directory.extend(parts.concat());
        self.directory.extend(extra);
        self.count += 1;
        Ok(())
    }

    /// Writes the directory.
    pub fn finish(mut self) -> io::Result<()> {
        let (offset, size, count) = (self.at, self.directory.len() as u64, self.count);
        let directory = std::mem::take(&mut self.directory);
        self.put(&directory)?;
        let large = offset >= u64::from(LARGE) || size >= u64::from(LARGE) || count >= 0xFFFF;
        if large {
            let at = self.at;
            let numbers = [count, count, size, offset].map(u64::to_le_bytes).concat();
            self.put(&[&END64.to_le_bytes()[..], &44u64.to_le_bytes(), &[45, 0, 45, 0]].concat())?;
            self.put(&[0; 8])?;
            self.put(&numbers)?;
            self.put(
                &[&LOCATOR64.to_le_bytes()[..], &[0; 4], &at.to_le_bytes(), &[1, 0, 0, 0]].concat(),
            )?;
        }
        let shown = |n: u64| if large { LARGE.to_le_bytes() } else { low(n) };
        let count = if large { u16::MAX } else { count as u16 }.to_le_bytes();
        let parts: [&[u8]; 7] =
            [&END.to_le_bytes(), &[0; 4], &count, &count, &shown(size), &shown(offset), &[0; 2]];
        self.put(&parts.concat())
    }
}
