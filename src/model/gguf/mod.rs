//! A reader for GGUF model files, versions 2 and 3, for files that nobody has checked before.
//!
//! Every count and length is held against what is left of the file before anything is allotted for it, every
//! tensor's place against the file's end. A damaged file gives an error that names the file and the fault.
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod cursor;
mod error;
mod metadata;
mod types;

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use cursor::Cursor;
pub use error::GgufError;
pub use metadata::{Metadata, ValueType};
pub use types::GgmlType;

const MAX_DIMS: u32 = 4;
const DEFAULT_ALIGNMENT: u64 = 32;
const MAX_ALIGNMENT: u64 = 1 << 16;

/// A file's bytes: mapped, in memory, or part of the program.
#[derive(Clone)]
pub(crate) enum Bytes {
    Mapped(Arc<memmap2::Mmap>),
    Owned(Arc<Vec<u8>>),
    Static(&'static [u8]),
}

impl Bytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
            Bytes::Static(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.as_slice().len())
    }
}

/// One tensor of a file: what it is and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub name: String,
    /// Sizes in GGUF's order: the first is the length of a row, which is contiguous.
    pub dims: Vec<usize>,
    pub ggml_type: GgmlType,
    /// Where its bytes lie in the file; checked to be inside.
    pub range: Range<usize>,
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Length of one row.
    pub fn row_len(&self) -> usize {
        self.dims.first().copied().unwrap_or(1)
    }

    /// Number of rows, all outer dimensions together.
    pub fn rows(&self) -> usize {
        self.dims.iter().skip(1).product()
    }
}

/// An opened GGUF file: its metadata and its tensors' places. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GgufFile {
    name: Arc<str>,
    bytes: Bytes,
    version: u32,
    metadata: Arc<Metadata>,
    tensors: Arc<Vec<TensorInfo>>,
    by_name: Arc<HashMap<String, usize>>,
}

impl GgufFile {
    /// Maps and checks a file.
    ///
    /// # Errors
    /// When it cannot be read, is no GGUF file, or is damaged.
    pub fn open(path: &Path) -> Result<GgufFile, GgufError> {
        let name = path.display().to_string();
        let io = |source| GgufError::Io { file: name.clone(), source };
        // Asked before opening: opening a named pipe would wait for its writer.
        if !fs::metadata(path).map_err(io)?.is_file() {
            return Err(GgufError::NotAFile { file: name });
        }
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.len() == 0 {
            return Err(GgufError::NotGguf { file: name, found: "nothing: it is empty".into() });
        }
        // SAFETY: the map is only read. As with every mapped file, another program that writes to it meanwhile changes
        // the bytes seen here; they are only ever read as plain numbers, through checked offsets.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
        Self::parse(&name, Bytes::Mapped(Arc::new(map)))
    }

    /// Checks a file that is part of the program.
    ///
    /// # Errors
    /// When it is no GGUF file, or is damaged.
    pub fn from_static(name: &str, bytes: &'static [u8]) -> Result<GgufFile, GgufError> {
        Self::parse(name, Bytes::Static(bytes))
    }

    /// Checks a file that has been read into memory.
    ///
    /// # Errors
    /// When it is no GGUF file, or is damaged.
    pub fn from_vec(name: &str, bytes: Vec<u8>) -> Result<GgufFile, GgufError> {
        Self::parse(name, Bytes::Owned(Arc::new(bytes)))
    }

    fn parse(name: &str, bytes: Bytes) -> Result<GgufFile, GgufError> {
        let mut cursor = Cursor { file: name, data: bytes.as_slice(), at: 0 };
        let version = read_magic(&mut cursor)?;
        // A tensor's entry: name length 8, dimension count 4, type 4, offset 8; a metadata entry: key length 8, type 4, a byte.
        let tensor_count = cursor.count(24, "the list of tensors")?;
        let pair_count = cursor.count(13, "the list of metadata")?;
        let metadata = Metadata::read(&mut cursor, pair_count, bytes.clone())?;
        let alignment = read_alignment(&cursor, &metadata)?;
        let entries = (0..tensor_count).map(|index| read_tensor(&mut cursor, index, alignment));
        let mut tensors = entries.collect::<Result<Vec<_>, _>>()?;
        let begin = (cursor.at as u64).next_multiple_of(alignment);
        let mut by_name = HashMap::with_capacity(tensors.len());
        for (index, tensor) in tensors.iter_mut().enumerate() {
            tensor.range = place(&cursor, tensor, begin)?;
            if by_name.insert(tensor.name.clone(), index).is_some() {
                return Err(cursor.damaged(format!("tensor \"{}\" is there twice", tensor.name)));
            }
        }
        Ok(GgufFile {
            name: name.into(),
            bytes: bytes.clone(),
            version,
            metadata: Arc::new(metadata),
            tensors: Arc::new(tensors),
            by_name: Arc::new(by_name),
        })
    }

    /// The path, or the name given.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn version(&self) -> u32 {
        self.version
    }

    /// Length of the file in bytes.
    pub fn len(&self) -> usize {
        self.bytes.as_slice().len()
    }

    /// Never: an empty file is refused when it is opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors, in the file's order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|index| &self.tensors[*index])
    }

    /// The bytes of one of this file's tensors.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        self.bytes.as_slice().get(tensor.range.clone()).unwrap_or_default()
    }
}

fn read_magic(cursor: &mut Cursor<'_>) -> Result<u32, GgufError> {
    let magic = cursor.data.get(..4).unwrap_or(cursor.data);
    if magic != b"GGUF" {
        let found = format!("\"{}\"", magic.escape_ascii());
        return Err(GgufError::NotGguf { file: cursor.file.into(), found });
    }
    cursor.at = 4;
    let version = cursor.u32("the version")?;
    match version {
        2 | 3 => Ok(version),
        _ if matches!(version.swap_bytes(), 1..=3) => Err(GgufError::BigEndian { file: cursor.file.into() }),
        _ => Err(GgufError::Version { file: cursor.file.into(), version }),
    }
}

fn read_alignment(cursor: &Cursor<'_>, metadata: &Metadata) -> Result<u64, GgufError> {
    let alignment = metadata.get_u64("general.alignment")?.unwrap_or(DEFAULT_ALIGNMENT);
    if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
        let what = format!("general.alignment is {alignment}, which is no power of two up to {MAX_ALIGNMENT}");
        return Err(cursor.damaged(what));
    }
    Ok(alignment)
}

/// Reads a tensor's entry; `range` then holds its offset from the data's begin and its length.
fn read_tensor(cursor: &mut Cursor<'_>, index: usize, alignment: u64) -> Result<TensorInfo, GgufError> {
    let what = format!("the entry of tensor {index}");
    let name = cursor.string(&what)?;
    let name = match std::str::from_utf8(name) {
        Ok(name) if !name.is_empty() => name.to_owned(),
        _ => return Err(cursor.damaged(format!("the name of tensor {index} is empty or not UTF-8"))),
    };
    let dim_count = cursor.u32(&what)?;
    if dim_count > MAX_DIMS {
        return Err(cursor.damaged(format!("tensor \"{name}\" has {dim_count} dimensions, and {MAX_DIMS} are the most")));
    }
    let mut dims = Vec::with_capacity(dim_count as usize);
    for _ in 0..dim_count {
        dims.push(cursor.u64(&what)?);
    }
    let type_id = cursor.u32(&what)?;
    let offset = cursor.u64(&what)?;
    let Some(ggml_type) = GgmlType::from_id(type_id) else {
        return Err(GgufError::UnknownType { file: cursor.file.into(), tensor: name, type_id });
    };
    let Some((dims, size)) = size_of(&dims, ggml_type) else {
        let what = format!("tensor \"{name}\" of type {ggml_type} has the impossible shape {dims:?}");
        return Err(cursor.damaged(what));
    };
    let begin = usize::try_from(offset)
        .ok()
        .filter(|begin| (*begin as u64).is_multiple_of(alignment) && begin.checked_add(size).is_some());
    let Some(begin) = begin else {
        let what = format!("tensor \"{name}\" lies at offset {offset}, which is no multiple of {alignment} or too far");
        return Err(cursor.damaged(what));
    };
    Ok(TensorInfo { name, dims, ggml_type, range: begin..begin + size })
}

/// Dimensions as this machine's integers, and bytes. None when a size is 0, does not fit, or breaks a block.
fn size_of(dims: &[u64], ggml_type: GgmlType) -> Option<(Vec<usize>, usize)> {
    let sizes = dims.iter().map(|dim| usize::try_from(*dim).ok().filter(|dim| *dim > 0)).collect::<Option<Vec<_>>>()?;
    let elements = sizes.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim))?;
    let row = sizes.first().copied().unwrap_or(1);
    if row % ggml_type.block_elements() != 0 {
        return None;
    }
    let bytes = (elements / ggml_type.block_elements()).checked_mul(ggml_type.block_bytes())?;
    Some((sizes, bytes))
}

/// The tensor's place in the file, which must hold all of it.
fn place(cursor: &Cursor<'_>, tensor: &TensorInfo, begin: u64) -> Result<Range<usize>, GgufError> {
    let size = tensor.range.len() as u64;
    let first = begin.saturating_add(tensor.range.start as u64);
    let end = first.saturating_add(size);
    let file_len = cursor.data.len() as u64;
    if end > file_len {
        let at = first.min(file_len);
        let what = format!("tensor \"{}\" (from byte {first})", tensor.name);
        let left = (file_len - at) as usize;
        return Err(GgufError::Truncated { file: cursor.file.into(), what, at: at as usize, needed: size, left });
    }
    Ok(first as usize..end as usize)
}
