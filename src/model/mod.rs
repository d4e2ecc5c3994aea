//! The model: files, weights, kernels, and the forward pass over a [`crate::batch::Batch`].

mod error;
pub mod gguf;
pub mod kernels;
mod llama;
mod pool;
pub mod shapes;
mod tensors;

pub use error::ModelError;
pub use gguf::{GgmlType, GgufError, GgufFile, Metadata, TensorInfo};
pub use kernels::{KernelError, KernelKind, KvType};
pub use llama::{
    Llama, LlamaConfig, ModelOptions, StepPart, StepTimes, Synthetic, SyntheticError, kv_block_bytes, parse_type, synthetic_types,
};
pub use tensors::TensorLlama;
