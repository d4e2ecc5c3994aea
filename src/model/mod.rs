//! The model: files, weights, kernels, and the forward pass over a [`crate::batch::Batch`].

mod error;
pub mod gguf;
pub mod kernels;
mod llama;
mod pool;
mod tensors;

pub use error::ModelError;
pub use gguf::{GgmlType, GgufError, GgufFile, Metadata, TensorInfo};
pub use kernels::{KernelError, KernelKind, KvType};
pub use llama::{Llama, LlamaConfig, ModelOptions, StepPart, StepTimes};
pub use tensors::TensorLlama;
