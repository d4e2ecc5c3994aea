//! What can go wrong with a model, said so that a person can act on it.

use super::gguf::{GgmlType, GgufError};
use super::kernels::{KernelError, OutOfMemory, WorkerPanicked};

/// A fault in loading or running a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error(
        "{file}: the architecture \"{found}\" is not supported, only \"llama\" is: choose a model of the Llama family (SmolLM2, Llama, TinyLlama)"
    )]
    UnsupportedArchitecture { file: String, found: String },
    #[error("{file}: {what} (the file is damaged, or made for another program)")]
    BadConfig { file: String, what: String },
    #[error("{file}: tensor \"{tensor}\" is missing: the file is incomplete, download or convert it again")]
    MissingTensor { file: String, tensor: String },
    #[error("{file}: tensor \"{tensor}\" has the shape {found:?}, and the metadata calls for {expected:?}")]
    WrongShape { file: String, tensor: String, expected: Vec<usize>, found: Vec<usize> },
    #[error("{file}: tensor \"{tensor}\" has the type {found}, which cannot be computed with here (supported: {supported})")]
    UnsupportedType { file: String, tensor: String, found: GgmlType, supported: &'static str },
    #[error("{file}: tensor \"{tensor}\": {what}")]
    BadTensor { file: String, tensor: String, what: String },
    #[error(transparent)]
    Kernels(#[from] KernelError),
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    #[error("{0} is no KV block size: give a multiple of 16, up to 1024")]
    BlockSize(usize),
    #[error("the batch cannot be computed: {0}")]
    BadBatch(String),
    #[error("candle could not compute this: {0}")]
    Candle(#[from] candle_core::Error),
    #[error(transparent)]
    Worker(#[from] WorkerPanicked),
}
