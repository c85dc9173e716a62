use crate::{Folder, fixture};
use extensor::autodiff::named_leaves;
use extensor::io::safetensors::{Contents, File, load, parse, save};
use extensor::ops::{cast, transpose};
use extensor::{DType, Error, Key, Result, Tensor, Tree, tensor};
use std::collections::BTreeMap;

#[derive(Tree, Clone)]
struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

#[derive(Tree, Clone)]
struct Network {
    layers: Vec<Linear>,
    #[tree(buffer)]
    mean: Tensor,
    #[tree(static)]
    name: String,
}

fn network() -> Network {
    let layer = |i, bias: bool| Linear {
        weight: Key::new(i).normal([3, 2], DType::F32).unwrap(),
        bias: bias.then(|| Key::new(i + 10).normal([3], DType::BF16).unwrap()),
    };
    Network {
        layers: vec![layer(0, true), layer(1, false)],
        mean: tensor([0.25f64, -1.0]),
        name: "small".into(),
    }
}

fn same<T: Tree>(a: &T, b: &T) {
    for ((name, x), (other, y)) in named_leaves(a).into_iter().zip(named_leaves(b)) {
        assert_eq!((&name, x.shape(), x.dtype()), (&other, y.shape(), y.dtype()));
        assert_eq!(x.to_f64_vec(), y.to_f64_vec(), "{name}");
    }
    assert_eq!(named_leaves(a).len(), named_leaves(b).len());
}

/// A file of one header and some data.
fn raw(header: &str, data: usize) -> Result<File> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(vec![0; data]);
    parse(bytes)
}

#[test]
fn a_tree_comes_back_with_its_names_buffers_and_metadata() {
    let folder = Folder::new("tree");
    let path = folder.path("model.safetensors");
    let metadata = BTreeMap::from([("epoch".into(), "3".into()), ("\"\\\n🦀".into(), "".into())]);
    save(&path, &network(), &metadata).unwrap();
    let file = load(&path).unwrap();
    let names = ["layers.0.bias", "layers.0.weight", "layers.1.weight", "mean"];
    assert_eq!(file.names().collect::<Vec<_>>(), names);
    assert_eq!(*file.metadata(), metadata);
    assert_eq!(file.info("layers.0.bias").unwrap().dtype(), Some(DType::BF16));
    let mut template = network();
    template.name = "kept".into();
    let again = file.into_tree(&template).unwrap();
    same(&again, &network());
    assert_eq!(again.name, "kept");
    assert_eq!(folder.names(), ["model.safetensors"]);
}

#[test]
fn every_dtype_and_any_view_keeps_its_bits() {
    let x = Key::new(3).integers([4, 6], 2).unwrap();
    let mut tensors = BTreeMap::new();
    for dtype in DType::ALL {
        let x = cast(&x, dtype).unwrap();
        tensors.insert(format!("{dtype}.turned"), transpose(&x, None).unwrap());
        tensors.insert(format!("{dtype}.part"), extensor::ops::slice(&x, 0, 1, 3, 1).unwrap());
        tensors.insert(format!("{dtype}.every"), extensor::ops::slice(&x, 1, 5, None, -2).unwrap());
        let one = extensor::ops::slice(&x, 0, 0, 1, 1).unwrap();
        tensors.insert(format!("{dtype}.wide"), extensor::ops::broadcast_to(&one, [5, 6]).unwrap());
        tensors.insert(format!("{dtype}.none"), Tensor::zeros([0, 3], dtype).unwrap());
        tensors.insert(format!("{dtype}.scalar"), Tensor::ones([], dtype).unwrap());
    }
    let bytes = Contents::new().with("", &tensors).to_bytes().unwrap();
    same(&parse(bytes.clone()).unwrap().into_tree(&tensors).unwrap(), &tensors);
    assert_eq!(Contents::new().with("", &tensors).to_bytes().unwrap(), bytes, "the same bytes");
}

#[test]
fn several_trees_lie_under_prefixes() {
    let (model, state) = (network(), vec![tensor([1.0f32]), tensor([2.0f32])]);
    let scale = tensor(65536.0f32);
    let contents = Contents::new().with("model.", &model).with("optimizer.", &state);
    let bytes = contents.with("scale", &scale).metadata("step", 7).to_bytes().unwrap();
    let file = parse(bytes).unwrap();
    same(&file.under("model.").into_tree(&model).unwrap(), &model);
    same(&file.under("optimizer.").into_tree(&state).unwrap(), &state);
    same(&file.under("scale").into_tree(&scale).unwrap(), &scale);
    assert_eq!(file.under("optimizer.").names().collect::<Vec<_>>(), ["0", "1"]);
    assert_eq!(file.metadata()["step"], "7");
    let all = file.into_tree(&model).err().unwrap().to_string();
    assert!(all.contains("\"layers.0.weight\" is not there"), "{all}");
}

#[test]
fn a_file_of_pytorch_is_read() {
    let file = load(fixture("torch.safetensors")).unwrap();
    assert_eq!(file.metadata()["format"], "pt");
    assert_eq!(file.metadata()["note"], "naïve \"quotes\" \\ and\nlines 🦀");
    let weight = file.tensor("model.0.weight").unwrap();
    assert_eq!(weight.shape(), [2, 3]);
    assert_eq!(weight.to_vec::<f32>().unwrap(), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
    assert_eq!(file.tensor("model.0.bias").unwrap().to_vec::<f32>().unwrap(), [-1.0, 2.5]);
    assert_eq!(file.tensor("model.1.num_batches_tracked").unwrap().item::<i64>().unwrap(), 0);
    assert_eq!(file.tensor("scalar").unwrap().item::<f32>().unwrap(), 2.5);
    assert_eq!(file.tensor("empty").unwrap().shape(), [0, 4]);
    assert_eq!(file.tensor("größe \"q\" 🦀").unwrap().to_vec::<f32>().unwrap(), [1.0]);
    let names: Vec<&str> = file.under("dtypes.").names().collect();
    assert_eq!(names.len(), DType::ALL.len());
    let mut seen = Vec::new();
    for name in names {
        let x = file.tensor(&format!("dtypes.{name}")).unwrap();
        let values: &[f64] = match x.dtype() {
            DType::Bool => &[1.0, 0.0, 0.0, 1.0, 1.0, 0.0],
            _ => &[0.0, 1.0, 2.0, 3.0, 4.0, 100.0],
        };
        assert_eq!((x.shape(), &x.to_f64_vec()[..]), (&[2, 3].into(), values), "{name}");
        seen.push(x.dtype());
    }
    seen.sort();
    assert_eq!(seen, DType::ALL);
}

#[test]
fn what_is_missing_unexpected_or_different_is_an_error_that_names_the_tensor() {
    let folder = Folder::new("mismatch");
    let path = folder.path("model.safetensors");
    save(&path, &network(), &BTreeMap::new()).unwrap();
    let loaded = |change: &dyn Fn(&mut Network)| {
        let mut template = network();
        change(&mut template);
        let error = load(&path).unwrap().into_tree(&template).err().unwrap();
        assert!(matches!(error, Error::TensorInFile { .. }));
        let message = error.to_string();
        assert!(message.contains("model.safetensors"), "{message}");
        message
    };
    let extra = loaded(&|n| n.layers[1].bias = Some(tensor([1.0f32])));
    assert!(extra.ends_with("tensor \"layers.1.bias\" is not there"), "{extra}");
    let fewer = loaded(&|n| n.layers[0].bias = None);
    assert!(fewer.ends_with("tensor \"layers.0.bias\" is not expected"), "{fewer}");
    let shape = loaded(&|n| n.layers[0].weight = Tensor::zeros([2, 3], DType::F32).unwrap());
    assert!(shape.ends_with("\"layers.0.weight\" has shape [3, 2], expected [2, 3]"), "{shape}");
    let dtype = loaded(&|n| n.mean = tensor([0.0f32, 0.0]));
    assert!(dtype.ends_with("tensor \"mean\" has dtype F64, expected F32"), "{dtype}");
    assert!(
        load(&path)
            .unwrap()
            .tensor("max")
            .unwrap_err()
            .to_string()
            .contains("\"max\" is not there")
    );
    let missing = load(folder.path("none")).err().unwrap().to_string();
    assert!(missing.contains("none"), "{missing}");
}

#[test]
fn names_that_cannot_be_written_are_errors() {
    let x = tensor([1.0f32]);
    let twice = Contents::new().with("a.", &x).with("a", &x).to_bytes().unwrap_err().to_string();
    assert!(twice.contains("\"a\" is there twice"), "{twice}");
    let kept = Contents::new().with("__metadata__", &x).to_bytes().unwrap_err().to_string();
    assert!(kept.contains("keeps for itself"), "{kept}");
}

#[test]
fn malformed_headers_are_errors_that_name_the_tensor() {
    let cases = [
        (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 8, ""),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#,
            7,
            r#""a" is at bytes 0 to 8"#,
        ),
        (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 9, "1 bytes at its end"),
        (r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#, 8, r#""a" has 8 bytes, but"#),
        (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}"#, 8, r#""a" has 8 bytes, but"#),
        (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#, 8, r#""a" ends at byte 0"#),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
            12,
            r#""a" has 4 bytes before"#,
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,0]}}"#,
            0,
            r#""a" has shape [4294967296, 4294967296, 2], which has more"#,
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
            3,
            r#""b" shares bytes with "a""#,
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
            2,
            r#""a" is in the header twice"#,
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}}"#,
            8,
            r#""a" is described wrongly"#,
        ),
        (r#"{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}"#, 8, r#""a" is described"#),
        (
            r#"{"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8]}}"#,
            8,
            r#""a""#,
        ),
        (
            r#"{"a":{"dtype":"F32","data_offsets":[0,8]}}"#,
            8,
            r#""a" is described wrongly: it has no shape"#,
        ),
        (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}}"#, 8, "not two numbers"),
        (r#"{"a":3}"#, 0, r#""a" is described wrongly"#),
        (r#"{"__metadata__":{"x":1}}"#, 0, r#"the metadata "x" is no string"#),
        (r#"{"__metadata__":{},"__metadata__":{}}"#, 0, "metadata twice"),
        (r#"{} x"#, 0, "expected its end"),
        (r#"{"a"#, 0, "the end of a string"),
        (r#"{"\u12"#, 0, "four hexadecimal digits"),
        (r#"{"\ud800":{}}"#, 0, "surrogates"),
        ("", 0, "its end at byte 0"),
    ];
    for (header, data, expected) in cases {
        match raw(header, data) {
            Ok(_) => assert_eq!(expected, "", "{header}"),
            Err(error) => {
                let message = error.to_string();
                assert!(!expected.is_empty() && message.contains(expected), "{header}: {message}");
            }
        }
    }
}

#[test]
fn a_dtype_that_there_is_not_here_is_an_error_only_when_it_is_read() {
    let header = r#"{"a":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"BOOL","shape":[1],"data_offsets":[3,4]}}"#;
    let file = raw(header, 4).unwrap();
    assert_eq!(file.tensor("b").unwrap().to_vec::<bool>().unwrap(), [false]);
    let message = file.tensor("a").unwrap_err().to_string();
    assert!(message.contains("\"a\" has dtype F8_E4M3"), "{message}");
}

#[test]
fn a_bool_that_is_neither_0_nor_1_is_an_error() {
    let header = r#"{"mask":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([1, 7]);
    let message = parse(bytes).unwrap().tensor("mask").unwrap_err().to_string();
    assert!(message.contains("\"mask\"") && message.contains('7'), "{message}");
}

#[test]
fn a_header_longer_than_the_file_is_an_error() {
    for promised in [1u64 << 60, u64::MAX, 100_000_001, 9] {
        let mut bytes = promised.to_le_bytes().to_vec();
        bytes.extend([b' '; 8]);
        let message = parse(bytes).err().unwrap().to_string();
        assert!(message.contains(&format!("{promised} bytes long")), "{message}");
    }
}

#[test]
fn a_file_that_shrinks_after_it_was_opened_is_an_error() {
    let folder = Folder::new("shrinks");
    let path = folder.path("x");
    save(&path, &tensor([1.0f32; 100]), &BTreeMap::new()).unwrap();
    let file = load(&path).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 4).unwrap();
    let message = file.tensor("tensor").unwrap_err().to_string();
    assert!(message.contains("\"tensor\" cannot be read"), "{message}");
}
