//! Damaged files of every format: an error or a tensor, never a panic, never much memory.

use crate::{again, asked, fixture};
use extensor::io::{npy, safetensors};
use extensor::{Key, Result, Tensor};

/// Every tensor of a file, or the error.
type Read = fn(&[u8]) -> Result<Vec<Tensor>>;

fn read_safetensors(bytes: &[u8]) -> Result<Vec<Tensor>> {
    let file = safetensors::parse(bytes.to_vec())?;
    file.names().map(|name| file.tensor(name)).collect()
}

fn read_npy(bytes: &[u8]) -> Result<Vec<Tensor>> {
    Ok(vec![npy::parse(bytes)?])
}

fn read_npz(bytes: &[u8]) -> Result<Vec<Tensor>> {
    Ok(npy::parse_npz(bytes)?.into_values().collect())
}

fn read_idx(bytes: &[u8]) -> Result<Vec<Tensor>> {
    Ok(vec![extensor::data::idx::parse(bytes)?])
}

/// Files, and how they are read.
const FILES: [(&str, Read); 5] = [
    ("torch.safetensors", read_safetensors),
    ("numpy_v2.npy", read_npy),
    ("numpy.npz", read_npz),
    ("numpy_packed.npz", read_npz),
    ("numbers.idx.gz", read_idx),
];

/// The most address space that this process ever had, in KiB; 0 where the system does not say.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}

fn check(name: &str, read: Read, bytes: &[u8], what: &str) -> bool {
    let result = std::panic::catch_unwind(|| read(bytes));
    let result = result.unwrap_or_else(|_| panic!("{name}, {what}: a panic"));
    if let Ok(tensors) = &result {
        for x in tensors {
            // What is packed may hold zeros of up to 1032 times its length.
            assert!(x.len() <= bytes.len() * 1032, "{name}, {what}: {}", x.shape());
        }
    }
    result.is_ok()
}

#[test]
fn a_file_cut_off_anywhere_is_an_error() {
    for (name, read) in FILES {
        let bytes = std::fs::read(fixture(name)).unwrap();
        assert!(check(name, read, &bytes, "whole"));
        for length in 0..bytes.len() {
            let fine = check(name, read, &bytes[..length], &format!("cut at {length}"));
            assert!(!fine, "{name}: fine without its end, {length} bytes");
        }
    }
}

#[test]
fn damaged_files_neither_panic_nor_take_much_memory() {
    if asked("EXTENSOR_TEST_FUZZ").is_none() {
        // In a process of its own, so that no other test takes memory.
        let test = "fuzz::damaged_files_neither_panic_nor_take_much_memory";
        let output = again(test, "", "EXTENSOR_TEST_FUZZ", "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let files = FILES.map(|(name, read)| (name, read, std::fs::read(fixture(name)).unwrap()));
    for (name, read, bytes) in &files {
        assert!(check(name, *read, bytes, "whole"));
    }
    let before = peak();
    for (number, (name, read, bytes)) in files.iter().enumerate() {
        for round in 0..3000u64 {
            let key = Key::new(number as u64).fold_in(round);
            let draw = key.integers([9], u32::MAX.into()).unwrap().to_vec::<i64>().unwrap();
            let mut damaged = bytes.clone();
            for pair in draw[1..].chunks_exact(2).take(1 + draw[0] as usize % 4) {
                // Half of the damage goes to the header, where it hurts most.
                let range = if pair[0] % 2 == 0 { damaged.len() } else { damaged.len().min(200) };
                let at = (pair[0] / 2) as usize % range;
                damaged[at] = match pair[1] % 4 {
                    0 => damaged[at] ^ (1 << (pair[1] / 4 % 8)),
                    1 => 0xFF,
                    2 => b'9',
                    _ => (pair[1] / 4) as u8,
                };
            }
            check(name, *read, &damaged, &format!("round {round}"));
        }
    }
    let grown = peak() - before;
    assert!(grown < 64 * 1024, "reading files of a few KiB took {grown} KiB");
}
