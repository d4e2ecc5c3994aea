//! What several test programs need: model files made on the spot, and batches that run sequences through a model.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod gguf_writer;
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

/// SmolLM2-135M-Instruct Q4_1, where the machine has it: its path is in `BATCHROOM_TEST_SMOLLM2`.
pub fn smollm2() -> Option<PathBuf> {
    let path = std::env::var_os("BATCHROOM_TEST_SMOLLM2").map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped: BATCHROOM_TEST_SMOLLM2 does not name a file");
    }
    path
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
