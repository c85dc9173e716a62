//! What a data set larger than memory takes of memory and of the disk, in a process of its own.

#![cfg(target_os = "linux")]

use extensor::data::{Dataset, Loader, Rows, StoredImages};
use extensor::{Key, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// So many pictures of 28 × 28 take 20.4 GB.
const COUNT: usize = 26_000_000;
const PIXELS: usize = 784;

/// A figure of `/proc/self/status` or `/proc/self/io`.
fn figure(file: &str, name: &str) -> usize {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// An IDX file that says what it holds, and of which nothing else takes a place on the disk.
fn sparse(path: &std::path::Path, sizes: &[usize]) -> File {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
    let file = file.unwrap();
    let mut header = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|&size| header.extend((size as u32).to_be_bytes()));
    file.write_all_at(&header, 0).unwrap();
    file.set_len((header.len() + sizes.iter().product::<usize>()) as u64).unwrap();
    file
}

/// One test, so that nothing else reads or allocates meanwhile.
#[test]
fn of_twenty_gigabytes_only_the_rows_of_a_batch_are_read_and_none_is_kept() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("extensor-sparse-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (x, y) = (folder.join("images"), folder.join("labels"));
    let (images, labels) = (sparse(&x, &[COUNT, 28, 28]), sparse(&y, &[COUNT]));
    // Three that are not black.
    let written = [0, 17_654_321, COUNT - 1];
    for (i, &example) in written.iter().enumerate() {
        images.write_all_at(&[100 + i as u8; PIXELS], (16 + example * PIXELS) as u64).unwrap();
        labels.write_all_at(&[7 + i as u8], (8 + example) as u64).unwrap();
    }
    // The names are gone at once, so that nothing is left over however this ends.
    let opened = [Rows::open(&[&x]), Rows::open(&[&y])];
    std::fs::remove_dir_all(&folder).unwrap();
    let [x, y] = opened;
    let data = StoredImages::new(x?, y?)?;
    assert_eq!((data.len(), data.classes()), (COUNT, 10));
    let batch = data.batch(&[written[1], 5, written[0], written[2]], Key::new(0))?;
    assert_eq!(batch.targets.to_vec::<i64>()?, [8, 0, 7, 9]);
    for (pixels, value) in batch.inputs.to_vec::<f32>()?.chunks(PIXELS).zip([101, 0, 100, 102]) {
        assert!(pixels.iter().all(|&pixel| pixel == value as f32 / 255.0));
    }

    let loader = Loader::new(data, 64, Key::new(1))?.shuffle(true).prefetch(0);
    let mut batches = loader.epoch(0)?;
    batches.next().transpose()?;
    let (memory, read) = (figure("status", "VmHWM"), figure("io", "rchar"));
    for _ in 0..300 {
        batches.next().transpose()?;
    }
    let memory = figure("status", "VmHWM") - memory;
    let read = figure("io", "rchar") - read;
    let wanted = 300 * 64 * (PIXELS + 1);
    // Reading the two figures is reading, too.
    assert!((wanted..wanted + 8192).contains(&read), "{read} bytes were read, {wanted} wanted");
    assert!(memory < 1024, "memory has grown by {memory} KiB");
    assert!(figure("status", "VmHWM") < 128 << 10);
    Ok(())
}
