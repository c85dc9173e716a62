//! IDX, CIFAR and text.

use crate::{Folder, packed};
use extensor::data::text::{Vocabulary, Windows, split};
use extensor::data::{Dataset, cifar, idx, text};
use extensor::{DType, Key, Result, Tensor, tensor};

fn idx_bytes(kind: u8, sizes: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, kind, sizes.len() as u8];
    bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend(data);
    bytes
}

fn message<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn idx_of_every_dtype_and_any_rank_is_read_plain_or_packed() {
    let grid = [0.0, 1.0, 2.0, 3.0, 4.0, 100.0];
    type Store = fn(f64) -> Vec<u8>;
    let all: [(u8, DType, Store); 6] = [
        (0x08, DType::U8, |v| vec![v as u8]),
        (0x09, DType::I8, |v| (v as i8).to_be_bytes().to_vec()),
        (0x0B, DType::I16, |v| (v as i16).to_be_bytes().to_vec()),
        (0x0C, DType::I32, |v| (v as i32).to_be_bytes().to_vec()),
        (0x0D, DType::F32, |v| (v as f32).to_be_bytes().to_vec()),
        (0x0E, DType::F64, |v| v.to_be_bytes().to_vec()),
    ];
    let folder = Folder::new("idx");
    for (kind, dtype, store) in all {
        let data: Vec<u8> = grid.iter().flat_map(|&v| store(v)).collect();
        let bytes = idx_bytes(kind, &[2, 1, 3], &data);
        let path = folder.write("a", &packed(&bytes));
        for x in [idx::parse(&bytes), idx::parse(&packed(&bytes)), idx::read(&path)] {
            let x = x.unwrap();
            assert_eq!((x.dtype(), x.shape()), (dtype, &[2, 1, 3].into()));
            assert_eq!(x.to_f64_vec(), grid);
        }
        let scalar = idx::parse(&idx_bytes(kind, &[], &store(100.0))).unwrap();
        assert_eq!((scalar.ndim(), scalar.to_f64_vec()), (0, vec![100.0]));
    }
}

#[test]
fn an_idx_header_that_promises_more_than_there_is_is_an_error() {
    let short = idx_bytes(8, &[2, 3], &[1; 5]);
    assert!(message(idx::parse(&short)).contains("6 bytes should follow, and at most 5 can"));
    assert!(message(idx::parse(&packed(&short))).contains("6 bytes should follow, and 5 do"));
    let huge = idx_bytes(8, &[u32::MAX, 1000], &[1; 5]);
    for bytes in [huge.clone(), packed(&huge)] {
        let message = message(idx::parse(&bytes));
        assert!(message.contains("4294967295000 bytes should follow, and at most"), "{message}");
    }
    let beyond = idx_bytes(8, &[u32::MAX; 8], &[]);
    assert!(message(idx::parse(&beyond)).contains("more elements than memory"));
    let folder = Folder::new("promises");
    let path = folder.write("short-idx", &short);
    assert!(message(idx::read(path)).contains("short-idx"));
}

#[test]
fn idx_that_goes_on_or_is_none_is_an_error() {
    let long = idx_bytes(8, &[2], &[1; 3]);
    assert!(message(idx::parse(&long)).contains("goes on"));
    // A bomb: a header that promises two bytes before 16 MiB of zeros, of which three are unpacked.
    let mut bomb = idx_bytes(8, &[2], &[]);
    bomb.extend(vec![0; 1 << 24]);
    assert!(message(idx::parse(&packed(&bomb))).contains("goes on"));
    assert!(message(idx::parse(b"PK no idx")).contains("no IDX file"));
    assert!(message(idx::parse(&idx_bytes(0x0A, &[0], &[]))).contains("no IDX file"));
    assert!(message(idx::parse(&[])).contains("4 bytes should follow"));
    let mut damaged = packed(&idx_bytes(8, &[4], &[1, 2, 3, 4]));
    let at = damaged.len() - 6; // in the checksum
    damaged[at] ^= 1;
    assert!(idx::parse(&damaged).is_err());
}

#[test]
fn a_folder_of_idx_files_is_found_by_the_usual_names_and_by_similar_ones() {
    let images = idx_bytes(8, &[2, 2, 2], &[1; 8]);
    let labels = idx_bytes(8, &[2], &[3, 0]);
    let cases: [[&str; 4]; 4] = [
        [
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        ],
        [
            "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
        ],
        [
            "train-images.idx3-ubyte",
            "train-labels.idx1-ubyte",
            "t10k-images.idx3-ubyte",
            "t10k-labels.idx1-ubyte",
        ],
        [
            "emnist-letters-train-images-idx3-ubyte.gz",
            "emnist-letters-train-labels-idx1-ubyte.gz",
            "emnist-letters-test-images-idx3-ubyte.gz",
            "emnist-letters-test-labels-idx1-ubyte.gz",
        ],
    ];
    for (i, names) in cases.iter().enumerate() {
        let folder = Folder::new(&format!("find{i}"));
        for name in names {
            let bytes = if name.contains("images") { &images } else { &labels };
            folder.write(name, &if name.ends_with(".gz") { packed(bytes) } else { bytes.clone() });
        }
        let files = idx::find(folder.path("")).unwrap();
        let found = [files.train_images, files.train_labels, files.test_images, files.test_labels];
        assert_eq!(found, names.map(|name| folder.path("").join(name)));
        let (train, test) = idx::folder(folder.path("")).unwrap();
        assert_eq!((train.len(), test.len(), train.classes()), (2, 2, 4));
        std::fs::remove_file(folder.path(names[2])).unwrap();
        assert!(message(idx::find(folder.path(""))).contains("no file t10k-images"));
        for name in ["a-test-images-idx", "b-test-images-idx"] {
            folder.write(name, &images);
        }
        assert!(message(idx::find(folder.path(""))).contains("several files for t10k-images"));
    }
    assert!(message(idx::find("no such folder")).contains("no such folder"));
}

#[test]
fn cifar_is_read_with_either_label() {
    let example = |labels: &[u8], seed: usize| {
        labels
            .iter()
            .copied()
            .chain((0..3072).map(move |i| (i * 7 + seed) as u8))
            .collect::<Vec<_>>()
    };
    let ten = [example(&[9], 1), example(&[0], 2)].concat();
    let images = cifar::parse(&ten, cifar::Kind::Ten).unwrap();
    assert_eq!((images.labels(), images.classes()), (&[9, 0][..], 10));
    assert_eq!(images.images().shape(), [2, 3, 32, 32]);
    assert_eq!(images.images().to_vec::<u8>().unwrap()[3072..], ten[3074..]);
    let hundred = packed(&example(&[19, 99], 1));
    assert_eq!(cifar::parse(&hundred, cifar::Kind::HundredCoarse).unwrap().labels(), [19]);
    assert_eq!(cifar::parse(&hundred, cifar::Kind::HundredFine).unwrap().labels(), [99]);
    let wrong = message(cifar::parse(&example(&[10], 1), cifar::Kind::Ten));
    assert!(wrong.contains("example 0 has class 10"), "{wrong}");
    let cut = message(cifar::parse(&ten[..4000], cifar::Kind::Ten));
    assert!(cut.contains("927 of 3073 bytes"), "{cut}");

    let folder = Folder::new("cifar");
    for i in 1..=5 {
        folder.write(&format!("data_batch_{i}.bin"), &example(&[i], 0));
    }
    assert!(message(cifar::folder(folder.path(""), cifar::Kind::Ten)).contains("test_batch.bin"));
    folder.write("test_batch.bin", &ten);
    let (train, test) = cifar::folder(folder.path(""), cifar::Kind::Ten).unwrap();
    assert_eq!((train.labels(), test.len()), (&[1, 2, 3, 4, 5][..], 2));
}

#[test]
fn a_vocabulary_encodes_in_the_narrowest_dtype_and_decodes_again() {
    let wide: String = (0..300).map(|i| char::from_u32(0x4e00 + i).unwrap()).collect();
    for (text, dtype) in [("hello wörld 🦀\n", DType::U8), (&wide, DType::U16)] {
        let vocabulary = Vocabulary::of(text);
        let tokens = vocabulary.encode(text).unwrap();
        assert_eq!(tokens.dtype(), dtype);
        let numbers: Vec<usize> = tokens.to_f64_vec().into_iter().map(|t| t as usize).collect();
        assert_eq!(vocabulary.decode(&numbers).unwrap(), text);
        assert_eq!(Vocabulary::of(&vocabulary.characters()), vocabulary);
        assert!(vocabulary.decode(&[vocabulary.len()]).is_err());
    }
    let unknown = message(Vocabulary::of("ab\n").encode("a\nbc"));
    assert!(unknown.contains("'c' in line 2"), "{unknown}");
}

#[test]
fn text_is_read_plain_or_packed_and_must_be_utf8() {
    let folder = Folder::new("text");
    let path = folder.write("a.txt.gz", &packed("grüße".as_bytes()));
    assert_eq!(text::read(&path).unwrap(), "grüße");
    assert_eq!(text::parse("grüße".as_bytes()).unwrap(), "grüße");
    assert!(message(text::parse(b"abc\xff")).contains("byte 3 is not"));
}

#[test]
fn windows_in_order_predict_every_token_once() {
    let tokens = Tensor::arange(0.0, 301.0, 1.0, DType::U16).unwrap();
    let (train, rest) = split(&tokens, 0.5).unwrap();
    assert_eq!((train.len(), rest.len()), (150, 151));
    let windows = Windows::in_order(rest, 10).unwrap();
    assert_eq!(windows.len(), 15);
    let all: Vec<usize> = (0..15).collect();
    let batch = windows.batch(&all, Key::new(0)).unwrap();
    assert_eq!(batch.inputs.to_vec::<i64>().unwrap(), (150..300).collect::<Vec<i64>>());
    assert_eq!(batch.targets.to_vec::<i64>().unwrap(), (151..301).collect::<Vec<i64>>());
    assert!(windows.batch(&[15], Key::new(0)).is_err());
}

#[test]
fn random_windows_depend_on_key_and_number_only_and_reach_both_ends() {
    let windows = Windows::random(tensor([0u8, 1, 2, 3, 4, 5]), 3, 1000).unwrap();
    let indices: Vec<usize> = (0..1000).collect();
    let batch = windows.batch(&indices, Key::new(1)).unwrap();
    let inputs = batch.inputs.to_vec::<i64>().unwrap();
    let starts: Vec<i64> = inputs.iter().step_by(3).copied().collect();
    for start in 0..3 {
        let share = starts.iter().filter(|&&s| s == start).count();
        assert!((250..420).contains(&share), "{share} windows start at {start}");
    }
    assert!(starts.iter().all(|&start| start < 3));
    for (row, start) in inputs.chunks(3).zip(&starts) {
        assert_eq!(row, [*start, start + 1, start + 2]);
    }
    let one = windows.batch(&[700], Key::new(1)).unwrap().inputs.to_vec::<i64>().unwrap();
    assert_eq!(one, inputs[2100..2103]);
    let other = windows.batch(&indices, Key::new(2)).unwrap().inputs.to_vec::<i64>().unwrap();
    assert_ne!(other, inputs);
    for length in [0, 6] {
        assert!(Windows::in_order(tensor([0u8, 1, 2, 3, 4, 5]), length).is_err());
    }
    assert_eq!(Windows::in_order(tensor([0u8, 1, 2, 3, 4, 5]), 5).unwrap().len(), 1);
}
