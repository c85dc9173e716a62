use crate::{Folder, fixture};
use extensor::io::npy::{parse, parse_npz, read, read_npz, to_bytes, write, write_npz};
use extensor::ops::{cast, transpose};
use extensor::{DType, Key, Tensor, tensor};
use std::collections::BTreeMap;

const GRID: [f64; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 100.0];

#[test]
fn numpys_dtypes_in_either_byte_order_and_either_order_of_elements_are_read() {
    for name in ["numpy.npz", "numpy_packed.npz"] {
        let tensors = read_npz(fixture(name)).unwrap();
        let mut kinds = 0;
        for (name, x) in &tensors {
            if let Some(kind) = name.strip_prefix("little_").or(name.strip_prefix("big_")) {
                let bits = &format!("{}", 8 * kind[1..].parse::<usize>().unwrap());
                assert_eq!(x.dtype().name(), format!("{}{bits}", &kind[..1]));
                assert_eq!((x.shape(), x.to_f64_vec()), (&[2, 3].into(), GRID.to_vec()), "{name}");
                kinds += 1;
            }
        }
        assert_eq!(kinds, 22);
        let flags = tensors["bool"].to_vec::<bool>().unwrap();
        assert_eq!(flags, [true, false, false, true, true, false]);
        assert_eq!(tensors["fortran"].to_f64_vec(), GRID);
        assert_eq!(tensors["fortran"].shape(), [2, 3]);
        let counted: Vec<i16> = (0..24).collect();
        assert_eq!(tensors["fortran_big_3d"].shape(), [2, 3, 4]);
        assert_eq!(tensors["fortran_big_3d"].to_vec::<i16>().unwrap(), counted);
        assert_eq!(tensors["scalar"].item::<f32>().unwrap(), 2.5);
        assert_eq!(tensors["vector"].to_vec::<f64>().unwrap(), [1.5, -2.5]);
        assert_eq!(tensors["empty"].shape(), [0, 4]);
    }
}

#[test]
fn all_versions_are_read() {
    for version in 1..=3 {
        let x = read(fixture(&format!("numpy_v{version}.npy"))).unwrap();
        assert_eq!((x.shape(), x.to_vec::<f64>().unwrap()), (&[2, 3].into(), GRID.to_vec()));
    }
}

#[test]
fn what_numpy_writes_is_written_byte_by_byte() {
    let expected = std::fs::read(fixture("numpy_v1.npy")).unwrap();
    let x = Tensor::from_vec(GRID.to_vec(), [2, 3]).unwrap();
    assert_eq!(to_bytes(&x).unwrap(), expected);
}

#[test]
fn every_dtype_shape_and_view_comes_back() {
    let folder = Folder::new("npy");
    let mut tensors = BTreeMap::new();
    for dtype in DType::ALL {
        let x = cast(&Key::new(1).integers([3, 4, 5], 2).unwrap(), dtype).unwrap();
        for (name, x) in [
            ("whole", x.clone()),
            ("turned", transpose(&x, None).unwrap()),
            ("vector", extensor::ops::reshape(&x, [60]).unwrap()),
            ("scalar", Tensor::ones([], dtype).unwrap()),
            ("none", Tensor::zeros([2, 0], dtype).unwrap()),
            ("axes", Tensor::ones(vec![1; 40], dtype).unwrap()),
        ] {
            let path = folder.path("x.npy");
            write(&path, &x).unwrap();
            let again = read(&path).unwrap();
            assert_eq!((again.dtype(), again.shape()), (dtype, x.shape()), "{name}");
            assert_eq!(again.to_f64_vec(), x.to_f64_vec(), "{name}");
            assert_eq!(
                (std::fs::metadata(&path).unwrap().len() as usize - x.len() * dtype.size()) % 64,
                0
            );
            tensors.insert(format!("{dtype} {name}"), x);
        }
    }
    let path = folder.path("all.npz");
    write_npz(&path, &tensors).unwrap();
    let again = read_npz(&path).unwrap();
    assert_eq!(again.keys().collect::<Vec<_>>(), tensors.keys().collect::<Vec<_>>());
    for (name, x) in &tensors {
        assert_eq!((again[name].dtype(), again[name].shape()), (x.dtype(), x.shape()));
        assert_eq!(again[name].to_f64_vec(), x.to_f64_vec(), "{name}");
    }
}

fn with_header(text: &str, data: usize) -> String {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(vec![0; data]);
    parse(&bytes).map_or_else(|error| error.to_string(), |x| format!("{}{}", x.dtype(), x.shape()))
}

#[test]
fn malformed_headers_are_errors() {
    let fine = "{\"shape\": (2, 3), 'fortran_order': True, 'descr': '<f4'}";
    assert_eq!(with_header(fine, 24), "f32[2, 3]");
    for (text, data, expected) in [
        (fine, 23, "takes 24 bytes, and 23 follow"),
        (fine, 25, "takes 24 bytes, and 25 follow"),
        (
            "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
            8,
            "\"<c8\", which there is not",
        ),
        (
            "{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}",
            4,
            "\"|f4\", which there is not",
        ),
        ("{'descr': '', 'fortran_order': False, 'shape': (1,)}", 4, "\"\", which there is not"),
        ("{'descr': 'ß4', 'fortran_order': False, 'shape': (1,)}", 4, "\"ß4\", which there is not"),
        (
            "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            4,
            "records are not read",
        ),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", 4, "True or False"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4, "a size"),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2)}",
            4,
            "more elements",
        ),
        ("{'descr': '<f4', 'fortran_order': False}", 4, "no \"shape\""),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} more", 4, "expected its end"),
        ("{'x': 1}", 0, "unknown field \"x\""),
        ("{'descr", 0, "a string's end"),
        ("", 0, "'{'"),
    ] {
        let message = with_header(text, data);
        assert!(
            message.starts_with("npy::read: the bytes: ") && message.contains(expected),
            "{message}"
        );
    }
    assert!(parse(b"PK\x03\x04 no npy").unwrap_err().to_string().contains("no .npy"));
}

#[test]
fn a_damaged_element_in_an_archive_is_an_error_that_names_the_tensor() {
    let folder = Folder::new("npz");
    let path = folder.path("x.npz");
    write_npz(&path, &vec![tensor([1.0f32; 8]), tensor([7u8; 64])]).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(64).position(|part| part == [7; 64]).unwrap();
    bytes[at + 3] = 8;
    let message = parse_npz(&bytes).unwrap_err().to_string();
    assert!(
        message.contains("tensor \"1\" cannot be read") && message.contains("checksum"),
        "{message}"
    );
}

#[test]
fn an_archive_may_have_more_entries_than_16_bits_count() {
    let folder = Folder::new("many");
    let path = folder.path("many.npz");
    let tensors: Vec<Tensor> = (0..66_000u32).map(tensor).collect();
    write_npz(&path, &tensors).unwrap();
    let again = read_npz(&path).unwrap();
    assert_eq!(again.len(), tensors.len());
    assert_eq!(again["65999"].item::<u32>().unwrap(), 65_999);
}

#[test]
fn an_entry_that_claims_more_than_it_can_unpack_to_is_an_error() {
    let mut bytes = std::fs::read(fixture("numpy_packed.npz")).unwrap();
    let at = bytes.windows(4).position(|part| part == b"PK\x01\x02").unwrap();
    bytes[at + 24..at + 28].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    let message = parse_npz(&bytes).unwrap_err().to_string();
    assert!(message.contains("a size that cannot be"), "{message}");
}
