//! Checksums of what a file holds, in its metadata: a bit that flips on the way is found out.
//!
//! Under [`KEY`] there are numbers of 8 hexadecimal digits: that of the header, made with zeros in its
//! own place, and that of each tensor's bytes, in the order in which they lie. They are CRC-32, as in
//! gzip and PNG, which finds every error of one bit and every run of wrong bits up to 32. Other
//! readers take them for any other metadata; a file that has none is read unchecked.

use flate2::Crc;
use std::io::{self, Write};

/// The name of the metadata.
pub(super) const KEY: &str = "extensor.crc32";
const DIGITS: usize = 8;
const ZEROS: &str = "00000000";

/// What a header is that does not have the checksum it should have.
pub(super) const DAMAGED: &str = "its header is damaged, or another program wrote the file and kept \
                                  the metadata \"extensor.crc32\": the checksum is another";

/// The metadata for tensors of these checksums, with zeros for that of the header.
pub(super) fn text(tensors: &[u32]) -> String {
    let mut text = String::from(ZEROS);
    for sum in tensors {
        text.push_str(&format!(" {sum:08x}"));
    }
    text
}

/// The numbers of the metadata: that of the header, and those of the tensors.
pub(super) fn parse(text: &str) -> Option<(u32, Vec<u32>)> {
    // One way to write each number: a flipped bit must not be another way.
    let number = |digits: &str| {
        let number = u32::from_str_radix(digits, 16).ok()?;
        (format!("{number:08x}") == digits).then_some(number)
    };
    let mut numbers = text.split(' ').map(number);
    Some((numbers.next()??, numbers.collect::<Option<_>>()?))
}

/// Where in a header's text its own checksum is: nothing but this entry can look so, since quotation
/// marks within names and values have a backslash before them.
fn place(header: &[u8]) -> Option<std::ops::Range<usize>> {
    let key = format!("\"{KEY}\":\"");
    let start = header.windows(key.len()).position(|part| part == key.as_bytes())? + key.len();
    (start + DIGITS <= header.len()).then_some(start..start + DIGITS)
}

/// The checksum of a header, if it has a place for one.
pub(super) fn of_header(header: &[u8]) -> Option<u32> {
    let at = place(header)?;
    let mut crc = Crc::new();
    crc.update(&header[..at.start]);
    crc.update(ZEROS.as_bytes());
    crc.update(&header[at.end..]);
    Some(crc.sum())
}

/// Whether a header has a checksum, and it is not the header's.
pub(super) fn is_wrong(header: &[u8]) -> bool {
    let said = place(header).map(|at| &header[at]);
    let said = said.map(|digits| u32::from_str_radix(&String::from_utf8_lossy(digits), 16).ok());
    said.is_some_and(|said| said != of_header(header))
}

/// Writes a header's checksum into its place.
pub(super) fn seal(header: &mut [u8]) {
    if let (Some(at), Some(sum)) = (place(header), of_header(header)) {
        header[at].copy_from_slice(format!("{sum:08x}").as_bytes());
    }
}

/// The checksum of a tensor's bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// A writer that keeps nothing but the checksum.
#[derive(Default)]
pub(super) struct Sum(Crc);

impl Sum {
    pub(super) fn value(&self) -> u32 {
        self.0.sum()
    }
}

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
