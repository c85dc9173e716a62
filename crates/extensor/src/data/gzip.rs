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
            return Ok(Stream { op, name, reader, left: length.saturating_mul(RATIO) });
        }
        Ok(Stream { op, name, reader: Box::new(reader), left: length })
    }

    /// An error about this source.
    pub fn fault(&self, reason: impl ToString) -> Error {
        fault(self.op, &self.name, reason)
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

    /// An error if anything follows. A gzipped stream's checksum is compared here.
    pub fn end(&mut self) -> Result<()> {
        match self.reader.read(&mut [0; 1]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.fault("it goes on after the last element that its header promises")),
            Err(error) => Err(self.fault(error)),
        }
    }
}
