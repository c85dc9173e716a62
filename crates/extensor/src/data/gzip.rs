//! Files and bytes as streams, unpacked on the way if they are gzipped.
//!
//! No more memory is taken than what a source can really give; what the bytes mean is not known here.

use crate::io::{fault, shown};
use crate::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Deflate makes at most 1032 bytes of one.
const RATIO: u64 = 1032;

/// A stream of bytes that knows how it is called and how long it can be at most.
pub(super) struct Stream<'a> {
    op: &'static str,
    name: String,
    reader: Box<dyn Read + 'a>,
    left: u64,
    packed: bool,
}

impl<'a> Stream<'a> {
    /// A file, gzipped or not.
    pub fn open(op: &'static str, path: &Path) -> Result<Stream<'static>> {
        let name = shown(path);
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (length, file) = opened.map_err(|error| fault(op, &name, error))?;
        Stream::new(op, name, BufReader::with_capacity(1 << 16, file), length)
    }

    /// Bytes, gzipped or not.
    pub fn of(op: &'static str, bytes: &'a [u8]) -> Result<Stream<'a>> {
        Stream::new(op, "the bytes".into(), bytes, bytes.len() as u64)
    }

    fn new(
        op: &'static str,
        name: String,
        mut reader: impl BufRead + 'a,
        length: u64,
    ) -> Result<Stream<'a>> {
        let start = reader.fill_buf().map_err(|error| fault(op, &name, error))?;
        if start.starts_with(&[0x1f, 0x8b]) {
            let reader = Box::new(MultiGzDecoder::new(reader));
            let left = length.saturating_mul(RATIO);
            return Ok(Stream { op, name, reader, left, packed: true });
        }
        Ok(Stream { op, name, reader: Box::new(reader), left: length, packed: false })
    }

    /// An error about this source.
    pub fn fault(&self, reason: impl ToString) -> Error {
        fault(self.op, &self.name, reason)
    }

    /// Whether it is gzipped.
    pub fn is_packed(&self) -> bool {
        self.packed
    }

    /// The next `count` bytes. Memory grows with what is really there.
    pub fn take(&mut self, count: u64) -> Result<Vec<u8>> {
        if count > self.left {
            let left = self.left;
            return Err(self.fault(format!("{count} bytes should follow, and at most {left} can")));
        }
        let start = count.min(1 << 20) as usize;
        let mut bytes = Vec::with_capacity(start);
        let read = self.reader.by_ref().take(count).read_to_end(&mut bytes);
        read.map_err(|error| self.fault(error))?;
        if (bytes.len() as u64) < count {
            let got = bytes.len();
            return Err(self.fault(format!("{count} bytes should follow, and {got} do")));
        }
        self.left -= count;
        Ok(bytes)
    }

    /// The next `count` bytes, or nothing if it is at its end.
    pub fn take_or_end(&mut self, count: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(count).read_to_end(&mut bytes);
        match read.map_err(|error| self.fault(error))? as u64 {
            0 => Ok(None),
            got if got < count => {
                Err(self.fault(format!("it ends within an example: {got} of {count} bytes")))
            }
            _ => Ok(Some(bytes)),
        }
    }

    /// All of it as text, if that is not longer than `most` bytes.
    pub fn text(&mut self, most: u64) -> Result<String> {
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(most.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| self.fault(error))?;
        if bytes.len() as u64 > most {
            return Err(self.fault(format!("it is longer than {most} bytes")));
        }
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            self.fault(format!("it is no UTF-8 text: byte {at} is not"))
        })
    }

    /// An error if anything follows. A gzipped stream's checksum is compared here.
    pub fn end(&mut self) -> Result<()> {
        match self.reader.read(&mut [0; 1]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.fault("it goes on after the last element that its header promises")),
            Err(error) => Err(self.fault(error)),
        }
    }
}
