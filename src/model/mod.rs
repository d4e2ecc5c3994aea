//! The model: files, weights, kernels, and the forward pass over a [`crate::batch::Batch`].

pub mod gguf;

pub use gguf::{GgmlType, GgufError, GgufFile, Metadata, TensorInfo};
