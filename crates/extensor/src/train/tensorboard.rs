//! The event files that TensorBoard shows: framed records with a checksum, each a protobuf message.
//!
//! Only what scalars need is here. This module knows the format, and nothing of what the numbers mean.

use super::files::{failed, keep_prefix};
use crate::Result;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the event file in its folder; TensorBoard looks for `tfevents` in it.
pub const FILE_NAME: &str = "events.out.tfevents.1.extensor";

/// An event file that scalars are appended to.
///
/// ```
/// use extensor::train::tensorboard::EventFile;
/// let folder = std::env::temp_dir().join(format!("extensor-doc-events-{}", std::process::id()));
/// let mut events = EventFile::create(&folder)?;
/// events.scalars(1, &[("loss/train", 0.5)])?;
/// # drop(events);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
}

impl EventFile {
    /// A new event file in a folder, which is made if it is not there.
    pub fn create(folder: &Path) -> Result<EventFile> {
        fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))?;
        let path = folder.join(FILE_NAME);
        let file = File::create(&path).map_err(|error| failed("create", &path, &error))?;
        let mut events = EventFile { path, file };
        let mut event = header(0);
        bytes_field(&mut event, 3, b"brain.Event:2");
        events.append(&event)?;
        Ok(events)
    }

    /// The event file of a run that goes on after `step`: later events, and a record that was not
    /// finished, are cut off. A file that is not there begins empty.
    pub fn resume(folder: &Path, step: u64) -> Result<EventFile> {
        let path = folder.join(FILE_NAME);
        if !path.exists() {
            return EventFile::create(folder);
        }
        let bytes = fs::read(&path).map_err(|error| failed("read", &path, &error))?;
        let kept = prefix(&bytes, step);
        if kept == 0 {
            return EventFile::create(folder);
        }
        keep_prefix(&path, kept as u64)?;
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.map_err(|error| failed("open", &path, &error))?;
        Ok(EventFile { path, file })
    }

    /// Appends an event with the values of scalars at a step.
    pub fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<()> {
        let mut summary = Vec::new();
        for (tag, value) in values {
            let mut entry = Vec::new();
            bytes_field(&mut entry, 1, tag.as_bytes());
            entry.push(2 << 3 | 5); // simple_value, 32 bits
            entry.extend((*value as f32).to_le_bytes());
            bytes_field(&mut summary, 1, &entry);
        }
        let mut event = header(step);
        bytes_field(&mut event, 5, &summary);
        self.append(&event)
    }

    fn append(&mut self, event: &[u8]) -> Result<()> {
        let length = (event.len() as u64).to_le_bytes();
        let mut record = Vec::with_capacity(event.len() + 16);
        record.extend(length);
        record.extend(masked(crc32c(&length)).to_le_bytes());
        record.extend(event);
        record.extend(masked(crc32c(event)).to_le_bytes());
        self.file.write_all(&record).map_err(|error| failed("write to", &self.path, &error))
    }
}

/// An event's wall time and step.
fn header(step: u64) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |t| t.as_secs_f64());
    let mut event = vec![1 << 3 | 1]; // wall_time, 64 bits
    event.extend(now.to_le_bytes());
    event.push(2 << 3); // step, a variable-length integer
    varint(&mut event, step);
    event
}

fn bytes_field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The length of the whole records at the beginning that are of no later step.
fn prefix(bytes: &[u8], step: u64) -> usize {
    let mut kept = 0;
    while let Some((event, length)) = record(&bytes[kept..]) {
        if step_of(event).is_none_or(|found| found > step) {
            break;
        }
        kept += length;
    }
    kept
}

/// The first record's event and the record's length, if it is whole and right.
fn record(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = bytes.get(..8)?;
    if word(8)? != masked(crc32c(length)) {
        return None;
    }
    let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
    let end = length.checked_add(12)?;
    let event = bytes.get(12..end)?;
    (word(end)? == masked(crc32c(event))).then_some((event, end + 4))
}

/// The step of an event that [`header`] began.
fn step_of(event: &[u8]) -> Option<u64> {
    let digits = event.get(10..)?;
    let mut step = 0;
    for (i, byte) in digits.iter().take(10).enumerate() {
        step |= u64::from(byte & 0x7f).checked_shl(7 * i as u32)?;
        if byte & 0x80 == 0 {
            return Some(step);
        }
    }
    None
}

/// The checksum of records: of a checksum that is itself data, checksums would be weak.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The cyclic redundancy check with Castagnoli's polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut crc = i as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, &b| crc >> 8 ^ TABLE[((crc ^ u32::from(b)) & 0xff) as usize])
}
