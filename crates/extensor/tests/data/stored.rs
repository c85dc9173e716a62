//! Data sets that stay in files.

use crate::{Folder, packed};
use extensor::data::{
    Augment, Batch, Dataset, Images, Loader, Pairs, Rows, StoredImages, StoredPairs, StoredWindows,
    stored, text::Windows,
};
use extensor::io::{npy, safetensors::Contents};
use extensor::{DType, Key, Tensor, ops, tensor};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn bits(batch: &Batch) -> (Vec<usize>, DType, Vec<u8>, DType, Vec<u8>) {
    let bytes = |x: &Tensor| npy::to_bytes(x).unwrap();
    let Batch { inputs, targets } = batch;
    (inputs.shape().to_vec(), inputs.dtype(), bytes(inputs), targets.dtype(), bytes(targets))
}

fn assert_same(memory: impl Dataset + 'static, disk: impl Dataset + 'static) {
    let (memory, disk): (Arc<dyn Dataset>, Arc<dyn Dataset>) = (Arc::new(memory), Arc::new(disk));
    assert_eq!(memory.len(), disk.len());
    for shuffle in [false, true] {
        let of = |data: &Arc<dyn Dataset>| {
            let loader = Loader::new(data.clone(), 7, Key::new(4)).unwrap().shuffle(shuffle);
            let batches = loader.epoch(2).unwrap();
            batches.map(|loaded| bits(&loaded.unwrap().batch)).collect::<Vec<_>>()
        };
        assert_eq!(of(&memory), of(&disk));
    }
    // Again and again the same, none, and all.
    let len = memory.len();
    for indices in [vec![3, 3, 4, 5, 3], vec![], (0..len).collect(), (0..len).rev().collect()] {
        let of = |data: &dyn Dataset| bits(&data.batch(&indices, Key::new(1)).unwrap());
        assert_eq!(of(&memory), of(&disk));
    }
    let error = disk.batch(&[0, len], Key::new(0)).unwrap_err().to_string();
    assert!(error.contains(&len.to_string()), "{error}");
}

/// 23 pictures of 3 × 4 × 5 and their classes.
fn pictures() -> (Tensor, Tensor) {
    let bytes: Vec<u8> = (0..23 * 60).map(|i| (i * 37 % 256) as u8).collect();
    let labels: Vec<u8> = (0..23).map(|i| (i * 5 % 11) as u8).collect();
    (Tensor::from_vec(bytes, [23, 3, 4, 5]).unwrap(), tensor(labels))
}

fn part(x: &Tensor, from: usize, to: usize) -> Tensor {
    ops::slice(x, 0, from as i64, to as i64, 1).unwrap().contiguous().unwrap()
}

/// The bytes of an IDX file.
fn idx(x: &Tensor) -> Vec<u8> {
    let code = match x.dtype() {
        DType::U8 => 8,
        DType::I8 => 9,
        DType::I16 => 11,
        DType::I32 => 12,
        DType::F32 => 13,
        _ => 14,
    };
    let mut bytes = vec![0, 0, code, x.ndim() as u8];
    x.shape().iter().for_each(|&size| bytes.extend((size as u32).to_be_bytes()));
    bytes.extend(elements(x, true));
    bytes
}

/// The bytes of the elements.
fn elements(x: &Tensor, big_endian: bool) -> Vec<u8> {
    let mut bytes = npy::to_bytes(x).unwrap();
    let size = x.dtype().size();
    let mut bytes = bytes.split_off(bytes.len() - x.len() * size);
    if big_endian {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    bytes
}

/// The parts of a data set: one is empty, and none has the size of another.
const PARTS: [(usize, usize); 4] = [(0, 2), (2, 13), (13, 13), (13, 23)];

#[test]
fn batches_from_every_format_are_those_of_the_data_set_in_memory_to_the_bit() {
    let (images, labels) = pictures();
    let augment = Augment { shift: 2, flip: true };
    let memory = || {
        let images = Images::new(images.clone(), labels.clone()).unwrap();
        images.normalize(&[0.1, 0.2, 0.3], &[0.4, 0.5, 0.6]).unwrap().augment(augment)
    };
    let all = [(0, 23)];
    for (format, parts) in [("npy", &all[..]), ("idx", &PARTS), ("npy", &PARTS), ("st", &PARTS)] {
        let folder = Folder::new(&format!("stored-{format}-{}", parts.len()));
        for (i, &(from, to)) in parts.iter().enumerate() {
            let (x, y) = (part(&images, from, to), part(&labels, from, to));
            match format {
                "st" => {
                    let path = folder.path(&format!("train-{i}.safetensors"));
                    let contents = Contents::new().with("images", &x).with("labels", &y);
                    contents.save(path).unwrap();
                }
                "npy" => {
                    npy::write(folder.path(&format!("train-images-{i}.npy")), &x).unwrap();
                    npy::write(folder.path(&format!("train-labels-{i}.npy")), &y).unwrap();
                }
                _ => {
                    folder.write(&format!("train-images-{i}-idx4-ubyte"), &idx(&x));
                    folder.write(&format!("train-labels-{i}-idx1-ubyte"), &idx(&y));
                }
            }
        }
        let disk = stored::find(folder.path(""), &["train"]).unwrap().images().unwrap();
        assert_eq!((disk.classes(), disk.size()), (11, [3, 4, 5]));
        assert_eq!(disk.statistics(usize::MAX).unwrap(), memory().statistics());
        for i in [0, 12, 22] {
            let of = |x: Tensor| x.to_vec::<u8>().unwrap();
            assert_eq!(of(disk.image(i).unwrap()), of(memory().image(i).unwrap()));
        }
        let disk = disk.normalize(&[0.1, 0.2, 0.3], &[0.4, 0.5, 0.6]).unwrap().augment(augment);
        assert_same(memory(), disk);
    }
}

#[test]
fn rows_of_every_dtype_and_either_byte_order_are_read_as_they_are() {
    let folder = Folder::new("stored-dtypes");
    let numbers = Key::new(1).normal([23, 3], DType::F64).unwrap();
    let labels = tensor((0..23i64).collect::<Vec<_>>());
    let labels_at = folder.path("labels.npy");
    npy::write(&labels_at, &labels).unwrap();
    let mut formats = 0;
    for dtype in DType::ALL {
        let x = ops::cast(&numbers, dtype).unwrap();
        let mut files = vec![("as-it-is.npy", npy::to_bytes(&x).unwrap())];
        let header = npy::to_bytes(&x).unwrap();
        let header = &header[..header.len() - elements(&x, false).len()];
        if header.contains(&b'<') {
            let mut turned: Vec<u8> = header.to_vec();
            turned.iter_mut().filter(|b| **b == b'<').for_each(|b| *b = b'>');
            files.push(("turned.npy", [turned, elements(&x, true)].concat()));
        }
        if matches!(
            dtype,
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::F32 | DType::F64
        ) {
            files.push(("idx2", idx(&x)));
        }
        files.push(("one.safetensors", Contents::new().with("", &x).to_bytes().unwrap()));
        for (name, bytes) in files {
            let path = folder.write(name, &bytes);
            let rows = Rows::open(&[path]).unwrap();
            assert_eq!((rows.dtype(), rows.shape().to_vec()), (dtype, vec![3]), "{name}");
            let disk = StoredPairs::new(rows, Rows::open(&[&labels_at]).unwrap()).unwrap();
            assert_same(Pairs::new(x.clone(), labels.clone()).unwrap(), disk);
            formats += 1;
        }
    }
    assert_eq!(formats, 13 * 2 + 10 + 6);
}

#[test]
fn a_file_that_is_cut_off_at_any_length_is_an_error_when_it_is_opened() {
    let folder = Folder::new("stored-cut");
    let x = tensor([[1u8, 2, 3], [4, 5, 6]]);
    for whole in [
        idx(&x),
        npy::to_bytes(&x).unwrap(),
        Contents::new().with("", &x).metadata("made", "here").to_bytes().unwrap(),
    ] {
        for length in 0..whole.len() {
            let path = folder.write("cut", &whole[..length]);
            let error = Rows::open(&[&path]).unwrap_err().to_string();
            assert!(error.contains("cut"), "{error}");
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert!(Rows::open(&[folder.write("longer", &longer)]).is_err());
        assert_eq!(Rows::open(&[folder.write("whole", &whole)]).unwrap().len(), 2);
    }
    // What a header promises is compared with the file before memory is taken for it.
    let mut huge = idx(&x);
    huge[4..8].fill(0xff);
    let error = Rows::open(&[folder.write("huge", &huge)]).unwrap_err().to_string();
    assert!(error.contains("12884901885 bytes, and 6 follow"), "{error}");
}

fn message<T>(result: extensor::Result<T>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

fn images_in(path: &Path, labels: &Path) -> extensor::Result<StoredImages> {
    StoredImages::new(Rows::open(&[path])?, Rows::open(&[labels])?)
}

#[test]
fn a_file_that_shrinks_while_training_is_an_error_that_names_file_and_example() {
    let folder = Folder::new("stored-shrinks");
    let (images, labels) = pictures();
    let (x, y) = (folder.path("images.npy"), folder.path("labels.npy"));
    npy::write(&x, &images).unwrap();
    npy::write(&y, &labels).unwrap();
    let data = images_in(&x, &y).unwrap();
    let length = std::fs::metadata(&x).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&x).unwrap();
    file.set_len(length - 61).unwrap();
    assert!(data.batch(&[20, 3, 4], Key::new(0)).is_ok());
    let expected = format!(
        "Rows: {}: example 21 (row 21) cannot be read: the file had {length} bytes at the start and has \
         fewer now",
        x.display()
    );
    assert_eq!(message(data.batch(&[3, 21], Key::new(0))), expected);
    let mut batches = Loader::new(data, 5, Key::new(0)).unwrap().epoch(0).unwrap();
    let failed = batches.find_map(|loaded| loaded.err()).unwrap();
    assert!(failed.to_string().contains("images.npy: example 20 (row 20) cannot be read"));
    assert!(batches.next().is_none());
}

#[test]
fn of_many_files_those_that_are_not_held_open_may_not_vanish_or_change() {
    let folder = Folder::new("stored-many");
    let paths: Vec<PathBuf> = (0..140u16)
        .map(|i| {
            let path = folder.path(&format!("{i}.npy"));
            npy::write(&path, &tensor([[i, i], [i, i + 1]])).unwrap();
            path
        })
        .collect();
    let rows = Rows::open(&paths).unwrap();
    let held = std::fs::read_dir("/proc/self/fd").map(|all| {
        let open = all.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        open.filter(|path| path.starts_with(folder.path(""))).count()
    });
    assert!(held.is_err() || held.is_ok_and(|held| held == 128));
    assert_eq!(rows.len(), 280);
    assert_eq!(rows.read(&[279, 0]).unwrap().to_vec::<u16>().unwrap(), [139, 140, 0, 0]);
    std::fs::remove_file(&paths[0]).unwrap();
    std::fs::remove_file(&paths[139]).unwrap();
    std::fs::write(&paths[138], [npy::to_bytes(&tensor([1u16])).unwrap(), vec![0; 99]].concat())
        .unwrap();
    if cfg!(unix) {
        assert_eq!(rows.read(&[1]).unwrap().to_vec::<u16>().unwrap(), [0, 1]);
    }
    let error = message(rows.read(&[5, 278]));
    assert!(error.contains("139.npy: example 278 (row 0) cannot be read: "), "{error}");
    let error = message(rows.read(&[277]));
    let expected = "138.npy: example 277 (row 1) cannot be read: the file had ";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn shards_that_do_not_fit_together_are_an_error_that_names_them() {
    let folder = Folder::new("stored-unlike");
    let write = |name: &str, x: Tensor| {
        npy::write(folder.path(name), &x).unwrap();
        folder.path(name)
    };
    let a = write("a.npy", tensor([[1u8, 2], [3, 4]]));
    let wide = write("wide.npy", tensor([[1u8, 2, 3]]));
    let other = write("other.npy", tensor([[1i8, 2]]));
    let error = message(Rows::open(&[&a, &wide]));
    let says = "wide.npy: its rows are u8 of shape [3], and those of the first file, ";
    assert!(error.contains(says) && error.ends_with("a.npy, are u8 of shape [2]"), "{error}");
    let error = message(Rows::open(&[&a, &other]));
    assert!(error.contains("other.npy: its rows are i8 of shape [2]"), "{error}");
    let error = message(Rows::open(&[&write("number.npy", tensor(1u8))]));
    assert!(error.ends_with("number.npy: it holds a single number and no rows"), "{error}");
    let none: &[PathBuf] = &[];
    assert!(message(Rows::open(none)).contains("one file or more"));
    let rows = |path: &PathBuf| Rows::open(&[path]).unwrap();
    let error = message(StoredPairs::new(rows(&a), rows(&wide)));
    assert_eq!(error, "StoredPairs: targets is 1, expected 2 rows, one for each input");

    npy::write(folder.path("train-images-0.npy"), &pictures().0).unwrap();
    npy::write(folder.path("train-labels-0.npy"), &part(&pictures().1, 0, 22)).unwrap();
    let error = message(stored::find(folder.path(""), &["train"]));
    let says = "\"train-images-0.npy\" has 23 inputs, and \"train-labels-0.npy\" has 22 targets";
    assert!(error.ends_with(says), "{error}");
    let error = message(stored::folder(folder.path("")));
    assert!(error.contains("has 23 inputs"), "{error}");
    let error = message(stored::find(folder.path(""), &["test"]));
    assert!(error.contains("no .npy, IDX or safetensors file with \"test\""), "{error}");
}

#[test]
fn what_no_row_can_be_read_from_is_an_error_that_says_what_to_do() {
    let folder = Folder::new("stored-refused");
    let (images, labels) = pictures();
    let error = message(Rows::open(&[folder.write("x.gz", &packed(&idx(&images)))]));
    assert!(error.ends_with("it is gzipped, so that no row can be found in it: unpack it"));
    let mut columns = npy::to_bytes(&images).unwrap();
    let at = columns.windows(5).position(|part| part == b"False").unwrap();
    columns[at..at + 5].copy_from_slice(b"True ");
    let error = message(Rows::open(&[folder.write("columns.npy", &columns)]));
    assert!(error.contains("it is in Fortran's order"), "{error}");
    assert!(message(Rows::open(&[folder.write("a.txt", b"To be, or not")])).contains("no IDX"));
    assert!(message(Rows::open(&[folder.path("")])).contains("this is no file"));
    assert!(message(Rows::open(&[folder.path("nowhere")])).contains("nowhere"));

    let both = Contents::new().with("images", &images).with("labels", &labels);
    let path = folder.write("both", &both.to_bytes().unwrap());
    assert!(message(Rows::open(&[&path])).contains("it holds 2 tensors, expected one or a name"));
    assert!(message(Rows::named(&[&path], "targets")).contains("targets"));
    let error = message(Rows::named(&[folder.write("i", &idx(&images))], "images"));
    assert!(error.contains("it is no safetensors file and has no tensor \"images\""), "{error}");

    let rows = |x: &Tensor| {
        npy::write(folder.path("x.npy"), x).unwrap();
        Rows::open(&[folder.path("x.npy")]).unwrap()
    };
    let [x, y] = [rows(&images), rows(&labels)];
    assert!(message(StoredImages::new(y.clone(), y.clone())).contains("rows of [height, width]"));
    assert!(message(StoredImages::new(x.clone(), x.clone())).contains("rows of one number"));
    let below = tensor((0..23).map(|i| 10 - i).collect::<Vec<i32>>());
    let error = message(StoredImages::new(x.clone(), rows(&below)));
    let says = "x.npy: example 11 has class -1, expected a whole number from 0 on";
    assert!(error.ends_with(says), "{error}");
    let floats = Tensor::zeros([23], DType::F32).unwrap();
    assert!(message(StoredImages::new(x.clone(), rows(&floats))).contains("f32"));
    assert!(message(StoredImages::new(rows(&floats), y)).contains("u8"));
    assert!(message(x.range(20..24)).contains("a part of 0..23"));

    let mut bools = npy::to_bytes(&tensor([[true, false], [true, true]])).unwrap();
    *bools.last_mut().unwrap() = 7;
    let rows = Rows::open(&[folder.write("bools.npy", &bools)]).unwrap();
    assert!(rows.read(&[0]).is_ok());
    let error = message(rows.range(0..2));
    assert!(error.ends_with("example 1 (row 1) is bool and has a byte 7, neither 0 nor 1"));
}

#[test]
fn a_label_that_changes_while_training_is_an_error_that_names_file_and_example() {
    let folder = Folder::new("stored-label");
    let (images, labels) = pictures();
    let (x, y) = (folder.write("x", &idx(&images)), folder.write("y", &idx(&labels)));
    let data = images_in(&x, &y).unwrap();
    let mut changed = idx(&labels);
    changed[8 + 17] = 200;
    std::fs::write(&y, changed).unwrap();
    let error = message(data.batch(&[3, 17], Key::new(0)));
    let says = "y: example 17 has class 200, expected one of the 11 there were at the start";
    assert!(error.ends_with(says), "{error}");
}

#[test]
fn files_follow_one_another_by_the_numbers_in_their_names() {
    let folder = Folder::new("stored-names");
    let order =
        ["train-inputs.npy", "train-inputs-2.npy", "train-inputs-9-b.npy", "train-inputs-10.npy"];
    for (i, name) in order.iter().enumerate() {
        npy::write(folder.path(name), &tensor([[i as f32]])).unwrap();
        npy::write(folder.path(&name.replace("inputs", "targets")), &tensor([i as i64])).unwrap();
    }
    folder.write("README.md", b"about train-inputs.npy");
    assert!(stored::is_sharded(folder.path("")));
    let found = stored::find(folder.path(""), &["train"]).unwrap();
    let all = found.batch(&[0, 1, 2, 3], Key::new(0)).unwrap();
    assert_eq!(all.inputs.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 0.0]);
    assert_eq!(all.targets.to_vec::<i64>().unwrap(), [1, 2, 3, 0]);
}

#[test]
fn windows_of_tokens_in_files_are_those_of_tokens_in_memory_to_the_bit() {
    let folder = Folder::new("stored-windows");
    let tokens: Vec<u32> = (0..97).map(|i| i * i % 211).collect();
    for dtype in [DType::U8, DType::U16, DType::U32] {
        let tokens = ops::cast(&tensor(tokens.clone()), dtype).unwrap();
        let paths: Vec<PathBuf> = [(0, 3), (3, 60), (60, 60), (60, 97)]
            .into_iter()
            .map(|(from, to)| {
                let path = folder.path(&format!("{from}-{to}.npy"));
                npy::write(&path, &part(&tokens, from, to)).unwrap();
                path
            })
            .collect();
        let rows = Rows::open(&paths).unwrap();
        for length in [1, 5, 96] {
            assert_same_windows(
                Windows::in_order(tokens.clone(), length).unwrap(),
                StoredWindows::in_order(rows.clone(), length).unwrap(),
            );
            assert_same_windows(
                Windows::random(tokens.clone(), length, 40).unwrap(),
                StoredWindows::random(rows.clone(), length, 40).unwrap(),
            );
        }
        assert!(message(StoredWindows::in_order(rows.clone(), 97)).contains("1 to 96"));
        assert!(message(StoredWindows::in_order(rows, 0)).contains("1 to 96"));
    }
    let wide = folder.path("wide.npy");
    npy::write(&wide, &tensor([[1u8, 2], [3, 4]])).unwrap();
    let error = message(StoredWindows::in_order(Rows::open(&[&wide]).unwrap(), 1));
    assert!(error.contains("rows of one number"), "{error}");
    npy::write(&wide, &tensor([1.0f32, 2.0])).unwrap();
    let error = message(StoredWindows::in_order(Rows::open(&[&wide]).unwrap(), 1));
    assert!(error.contains("u8, u16 or u32"), "{error}");
}

fn assert_same_windows(memory: Windows, disk: StoredWindows) {
    assert_eq!(memory.len(), disk.len());
    let all: Vec<usize> = (0..memory.len()).rev().collect();
    let of = |data: &dyn Dataset| bits(&data.batch(&all, Key::new(3)).unwrap());
    assert_eq!(of(&memory), of(&disk));
}
