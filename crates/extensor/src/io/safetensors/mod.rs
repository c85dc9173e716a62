//! Trees to and from safetensors files, under the names that PyTorch gives their tensors.
//!
//! A file is 8 bytes with the length of a header, the header, and the tensors' bytes, little-endian.
//! What is written here has checksums in its metadata, and is checked by them when it is read.
//! This module must not know what a tree is for, or keep a copy of what it writes.

pub(crate) mod checksum;
mod header;

pub use header::Info;

use super::{Placed, atomic, fault, shown};
use crate::autodiff::Path as Place;
use crate::tensor::swap_bytes;
use crate::{DType, Error, Result, Tensor, Tree};
use header::{Fault, Header, name_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;

const LOAD: &str = "safetensors::load";
const SAVE: &str = "safetensors::save";

/// Saves a tree, atomically (see [`atomic::write`]): the names are those of
/// [`named_leaves`](crate::autodiff::named_leaves).
///
/// The same tree and metadata always give the same bytes. The tensor that is a whole tree has the
/// name `tensor`.
///
/// ```
/// use extensor::{Tensor, Tree, io::safetensors, tensor};
/// use std::collections::BTreeMap;
///
/// #[derive(Tree)]
/// struct Linear { weight: Tensor, bias: Tensor }
///
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-save-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let path = folder.join("model.safetensors");
/// let model = Linear { weight: tensor([[1.0f32, 2.0]]), bias: tensor([3.0f32]) };
/// safetensors::save(&path, &model, &BTreeMap::from([("format".into(), "pt".into())]))?;
///
/// let file = safetensors::load(&path)?;
/// assert_eq!(file.names().collect::<Vec<_>>(), ["bias", "weight"]);
/// assert_eq!(file.metadata()["format"], "pt");
/// let again = file.into_tree(&model)?; // `model` says which tensors, shapes and dtypes there must be
/// assert_eq!(again.weight.to_vec::<f32>()?, [1.0, 2.0]);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn save<T: Tree>(
    path: impl AsRef<Path>,
    tree: &T,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let mut contents = Contents::new().with("", tree);
    contents.metadata = metadata.clone();
    contents.save(path)
}

/// What is to be in a file: several trees, each under a prefix, and metadata.
///
/// ```
/// use extensor::{io::safetensors::{self, Contents}, tensor};
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-contents-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// # let path = folder.join("checkpoint.safetensors");
/// let model = vec![tensor([1.0f32, 2.0])];
/// let momentum = vec![tensor([0.5f32, 0.5])];
/// Contents::new().with("model.", &model).with("momentum.", &momentum).metadata("step", 7).save(&path)?;
///
/// let file = safetensors::load(&path)?;
/// assert_eq!(file.names().collect::<Vec<_>>(), ["model.0", "momentum.0"]);
/// let momentum = file.under("momentum.").into_tree(&momentum)?;
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Contents<'a> {
    tensors: Vec<(String, &'a Tensor)>,
    metadata: BTreeMap<String, String>,
}

impl<'a> Contents<'a> {
    /// Nothing yet.
    pub fn new() -> Contents<'a> {
        Contents::default()
    }

    /// With a tree's tensors too, their names after `prefix`.
    pub fn with<T: Tree>(mut self, prefix: &str, tree: &'a T) -> Contents<'a> {
        // Collecting cannot fail.
        let _ = tree.visit(&Place::ROOT, &mut |place, x| {
            self.tensors.push((name_at(prefix, place), x));
            Ok(())
        });
        self
    }

    /// With a line of metadata too.
    pub fn metadata(mut self, name: impl ToString, value: impl ToString) -> Contents<'a> {
        self.metadata.insert(name.to_string(), value.to_string());
        self
    }

    /// Writes the file, atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let (header, tensors) = self.arrange(&shown(path))?;
        atomic::write(path, |file| write_all(file, &header, &tensors))
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (header, tensors) = self.arrange("the bytes")?;
        let mut bytes = Vec::new();
        let written = write_all(&mut bytes, &header, &tensors);
        written.map(|()| bytes).map_err(|error| ours(error, SAVE, "the bytes"))
    }

    /// The header, and the tensors in their order: widest elements first, so that all are aligned.
    fn arrange(&self, file: &str) -> Result<(Vec<u8>, Vec<&'a Tensor>)> {
        let wrong = |tensor: &str, reason: &str| in_file(SAVE, file, tensor, reason);
        let mut sorted: Vec<_> = self.tensors.iter().collect();
        sorted.sort_by(|(a, x), (b, y)| {
            let size = |t: &Tensor| t.dtype().size();
            size(y).cmp(&size(x)).then(a.cmp(b))
        });
        let mut names = BTreeSet::new();
        let mut infos = Vec::with_capacity(sorted.len());
        let mut sums = Vec::with_capacity(sorted.len());
        let mut end = 0u64;
        for (name, x) in &sorted {
            if !names.insert(name) {
                return Err(wrong(name, "is there twice"));
            }
            if !Header::is_free(name) {
                return Err(wrong(name, "has a name that the format keeps for itself"));
            }
            let start = end;
            // Views may have more elements than memory: of one element seen many times.
            let bytes = (x.len() as u64).checked_mul(x.dtype().size() as u64);
            end = bytes
                .and_then(|b| start.checked_add(b))
                .ok_or_else(|| wrong(name, "is too large"))?;
            let (stored_dtype, shape) = (name_of(x.dtype()).to_string(), x.shape().clone());
            let info = Info { stored_dtype, shape, start, end, checksum: None };
            infos.push((name.as_str(), info));
            let mut sum = checksum::Sum::default();
            write_elements(&mut sum, x).map_err(|error| ours(error, SAVE, file))?;
            sums.push(sum.value());
        }
        let mut metadata = self.metadata.clone();
        metadata.insert(checksum::KEY.into(), checksum::text(&sums));
        let mut header = Header::write(&metadata, &infos);
        checksum::seal(&mut header);
        if header.len() as u64 > header::LONGEST {
            return Err(fault(
                SAVE,
                file,
                "the names and metadata are longer than the format allows",
            ));
        }
        Ok((header, sorted.into_iter().map(|(_, x)| *x).collect()))
    }
}

/// An error of ours that was wrapped, as it was; any other as one about the file.
fn ours(error: io::Error, op: &'static str, file: &str) -> Error {
    error.downcast::<Error>().unwrap_or_else(|error| fault(op, file, error))
}

fn write_all(file: &mut dyn Write, header: &[u8], tensors: &[&Tensor]) -> io::Result<()> {
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header)?;
    tensors.iter().try_for_each(|x| write_elements(file, x))
}

/// Writes a tensor's elements in row-major order, little-endian. Only a view that does not lie so in
/// memory is copied.
pub(super) fn write_elements(file: &mut dyn Write, x: &Tensor) -> io::Result<()> {
    let x = x.plain("save").and_then(Tensor::contiguous).map_err(io::Error::other)?;
    let bytes = x.bytes();
    if cfg!(target_endian = "little") {
        return file.write_all(bytes);
    }
    bytes.chunks(1 << 16).try_for_each(|part| {
        let mut part = part.to_vec();
        swap_bytes(&mut part, x.dtype().size());
        file.write_all(&part)
    })
}

/// The name of a leaf in a file.
pub(super) fn name_at(prefix: &str, place: &Place<'_>) -> String {
    match prefix.strip_suffix('.').unwrap_or(prefix) {
        "" if place.is_root() => "tensor".into(),
        name if place.is_root() => name.into(),
        _ => format!("{prefix}{place}"),
    }
}

fn in_file(op: &'static str, file: &str, tensor: &str, reason: impl ToString) -> Error {
    let (file, tensor) = (file.to_string(), tensor.to_string());
    Error::TensorInFile { op, file, tensor, reason: reason.to_string() }
}

/// A safetensors file whose header was read and found right; the tensors are read when asked for.
pub struct File {
    name: String,
    header: Header,
    data: u64,
    source: Source,
}

enum Source {
    Bytes(Vec<u8>),
    /// With its position, which two readers must not move at once.
    Disk(Mutex<fs::File>),
}

/// Opens a file and reads its header.
///
/// A file that is not what it says (cut off, an overlong header, tensors that overlap or do not fill
/// it, shapes that do not fit their bytes) is an error that names the tensor, before memory is taken
/// for it.
pub fn load(path: impl AsRef<Path>) -> Result<File> {
    let path = path.as_ref();
    let name = shown(path);
    let failed = |error: io::Error| fault(LOAD, &name, error);
    let mut file = fs::File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let (header, data) = read_header(&name, &mut file, length)?;
    Ok(File { name, header, data, source: Source::Disk(Mutex::new(file)) })
}

/// Reads a file that is in memory already.
///
/// ```
/// use extensor::{io::safetensors::{self, Contents}, tensor};
/// let bytes = Contents::new().with("", &tensor([true, false])).to_bytes()?;
/// assert_eq!(safetensors::parse(bytes)?.tensor("tensor")?.to_vec::<bool>()?, [true, false]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn parse(bytes: Vec<u8>) -> Result<File> {
    let name = "the bytes".to_string();
    let (header, data) = read_header(&name, &mut &bytes[..], bytes.len() as u64)?;
    Ok(File { name, header, data, source: Source::Bytes(bytes) })
}

/// The header, and where the tensors' bytes start.
fn read_header(name: &str, source: &mut dyn Read, length: u64) -> Result<(Header, u64)> {
    let failed = |reason: String| fault(LOAD, name, reason);
    if length < 8 {
        return Err(failed(format!("this is no safetensors file: it has {length} bytes")));
    }
    let mut first = [0; 8];
    source.read_exact(&mut first).map_err(|e| failed(e.to_string()))?;
    let promised = u64::from_le_bytes(first);
    if promised > (length - 8).min(header::LONGEST) {
        return Err(failed(format!(
            "its header should be {promised} bytes long, but the file has {length} and the format allows {}",
            header::LONGEST
        )));
    }
    let mut text = vec![0; promised as usize];
    source.read_exact(&mut text).map_err(|e| failed(e.to_string()))?;
    let data = 8 + promised;
    match Header::parse(&text, length - data) {
        Ok(header) => Ok((header, data)),
        // A header that is damaged may well be no header any more.
        Err(_) if checksum::is_wrong(&text) => Err(failed(checksum::DAMAGED.into())),
        Err(Fault { tensor: Some(tensor), reason }) => Err(in_file(LOAD, name, &tensor, reason)),
        Err(Fault { tensor: None, reason }) => Err(failed(reason)),
    }
}

impl File {
    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.header.tensors.keys().map(String::as_str)
    }

    /// What the file says of a tensor.
    pub fn info(&self, name: &str) -> Option<&Info> {
        self.header.tensors.get(name)
    }

    /// The metadata: strings by name.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.metadata
    }

    /// An error unless the file has checksums: one that was written with them and has none is damaged.
    pub fn expect_checksums(&self) -> Result<()> {
        match self.header.checked {
            true => Ok(()),
            false => Err(fault(LOAD, &self.name, "it has no checksums: it is damaged")),
        }
    }

    /// Reads the tensor of this name, which is an error if its bytes have another checksum than the
    /// file says.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let wrong = |reason: String| in_file(LOAD, &self.name, name, reason);
        let (info, dtype) = self.known(name)?;
        Tensor::from_bytes(LOAD, info.shape.clone(), dtype, |bytes| {
            self.read(info, bytes).map_err(|error| wrong(format!("cannot be read: {error}")))?;
            if info.checksum.is_some_and(|sum| sum != checksum::of_bytes(bytes)) {
                return Err(wrong(
                    "is damaged: its bytes have another checksum than the file says".into(),
                ));
            }
            if cfg!(target_endian = "big") {
                swap_bytes(bytes, dtype.size());
            }
            match bytes.iter().find(|&&b| dtype == DType::Bool && b > 1) {
                Some(b) => Err(wrong(format!("is bool and has a byte {b}, neither 0 nor 1"))),
                None => Ok(()),
            }
        })
    }

    /// What the file says of a tensor that is there, of a dtype that we have.
    fn known(&self, name: &str) -> Result<(&Info, DType)> {
        let wrong = |reason: String| in_file(LOAD, &self.name, name, reason);
        let info = self.info(name).ok_or_else(|| wrong("is not there".into()))?;
        let dtype = info.dtype().ok_or_else(|| {
            wrong(format!("has dtype {}, which there is not here", info.stored_dtype))
        })?;
        Ok((info, dtype))
    }

    /// Where the elements of a tensor are.
    pub(crate) fn place(&self, name: &str) -> Result<Placed> {
        let (info, dtype) = self.known(name)?;
        let (shape, start) = (info.shape.clone(), self.data + info.start);
        Ok(Placed { dtype, shape, start, big_endian: false })
    }

    fn read(&self, info: &Info, bytes: &mut [u8]) -> io::Result<()> {
        let start = self.data + info.start;
        match &self.source {
            Source::Bytes(all) => {
                let from = usize::try_from(start).ok().and_then(|start| all.get(start..));
                from.unwrap_or_default().read_exact(bytes)
            }
            Source::Disk(file) => {
                // A panic of another reader leaves nothing but a position, which is set here.
                let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                file.seek(SeekFrom::Start(start))?;
                file.read_exact(bytes)
            }
        }
    }

    /// The tensors whose names start with `prefix`.
    pub fn under<'a>(&'a self, prefix: &'a str) -> Part<'a> {
        Part { file: self, prefix }
    }

    /// All tensors, in the structure of `template`: each of its tensors must be in the file with the
    /// same shape and dtype, and no others.
    pub fn into_tree<T: Tree>(self, template: &T) -> Result<T> {
        self.under("").into_tree(template)
    }
}

/// The tensors of a [`File`] under a prefix.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    file: &'a File,
    prefix: &'a str,
}

impl<'a> Part<'a> {
    /// Their names without the prefix, sorted.
    pub fn names(self) -> impl Iterator<Item = &'a str> {
        self.file.names().filter_map(move |name| name.strip_prefix(self.prefix))
    }

    /// These tensors, in the structure of `template`: each of its tensors must be here with the same
    /// shape and dtype, and no others.
    pub fn into_tree<T: Tree>(self, template: &T) -> Result<T> {
        let Part { file, prefix } = self;
        // All is compared before anything is read.
        let mut expected = BTreeSet::new();
        template.visit(&Place::ROOT, &mut |place, x| {
            let name = name_at(prefix, place);
            file.expect(&name, x)?;
            expected.insert(name);
            Ok(())
        })?;
        let inside = |name: &&str| name.starts_with(prefix);
        if let Some(name) = file.names().filter(inside).find(|&name| !expected.contains(name)) {
            return Err(in_file(LOAD, &file.name, name, "is not expected"));
        }
        template.map(&Place::ROOT, &mut |place, _| file.tensor(&name_at(prefix, place)))
    }
}

impl File {
    /// An error unless there is a tensor like `x` of this name.
    fn expect(&self, name: &str, x: &Tensor) -> Result<()> {
        let wrong = |reason: String| Err(in_file(LOAD, &self.name, name, reason));
        let Some(info) = self.info(name) else {
            return wrong("is not there".into());
        };
        if info.shape != *x.shape() {
            return wrong(format!("has shape {}, expected {}", info.shape, x.shape()));
        }
        if info.dtype() != Some(x.dtype()) {
            let expected = name_of(x.dtype());
            return wrong(format!("has dtype {}, expected {expected}", info.stored_dtype));
        }
        Ok(())
    }
}
