//! What can be wrong with a model file, said so that a person can act on it.

/// A fault of a GGUF file. Every message names the file, what is wrong, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    #[error("cannot read {file}: {source}")]
    Io { file: String, source: std::io::Error },
    #[error("{file} is not a regular file: give the path of a .gguf file")]
    NotAFile { file: String },
    #[error("{file} is not a GGUF file (it begins with {found}, not \"GGUF\"): give the path of a .gguf file")]
    NotGguf { file: String, found: String },
    #[error(
        "{file} is a GGUF file of version {version}, and only versions 2 and 3 can be read: convert the model again with a current tool"
    )]
    Version { file: String, version: u32 },
    #[error("{file} is a big-endian GGUF file, and only little-endian ones can be read: convert the model again")]
    BigEndian { file: String },
    #[error(
        "{file} is damaged or cut short: {what} at byte {at} needs {needed} bytes and {left} are left (download the file again)"
    )]
    Truncated { file: String, what: String, at: usize, needed: u64, left: usize },
    #[error("{file} is damaged: {what} (download the file again)")]
    Damaged { file: String, what: String },
    #[error(
        "{file}: the type {type_id} of tensor \"{tensor}\" is not known: convert the model to a type such as Q4_K, Q8_0 or F16"
    )]
    UnknownType { file: String, tensor: String, type_id: u32 },
    #[error("{file}: the metadata has no \"{key}\": the file is incomplete, convert the model again")]
    MissingKey { file: String, key: String },
    #[error("{file}: the metadata value \"{key}\" is {found}, and {expected} is needed: convert the model again")]
    WrongValue { file: String, key: String, expected: &'static str, found: String },
}
