//! What several test programs need: model files made on the spot, and batches that run sequences through a model.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod fixture;
pub mod forks;
pub mod gguf_writer;
pub mod quality;
pub mod random;
pub mod sequences;
pub mod tiny;

use std::path::PathBuf;

use batchroom::model::{GgufFile, KernelKind};

/// The file of the built-in model.
pub static NANO: &[u8] = include_bytes!("../../assets/batchroom-nano.gguf");

pub fn nano() -> GgufFile {
    GgufFile::from_static("nano", NANO).unwrap()
}

/// SmolLM2-135M-Instruct Q4_1, fetched by the program's own code unless it is in the cache already.
pub fn smollm2() -> PathBuf {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let progress = tokio::sync::watch::channel(batchroom::hub::Progress::default()).0;
    runtime.block_on(batchroom::hub::fetch(&batchroom::hub::SMOLLM2, progress)).unwrap_or_else(|error| panic!("{error}"))
}

/// All kernel families that this machine can run.
pub fn families() -> impl Iterator<Item = KernelKind> {
    KernelKind::ALL.into_iter().filter(|kind| kind.available())
}

/// Index of the largest.
pub fn argmax(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().fold(
        (0, f32::NEG_INFINITY),
        |best, (index, value)| {
            if *value > best.1 { (index, *value) } else { best }
        },
    );
    best.0 as u32
}

/// The token ids in a JSON array.
pub fn ids(value: &serde_json::Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}
