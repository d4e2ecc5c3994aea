//! What each type of keys and values does to a model: bits per byte of a text, and the share of greedy choices that are
//! those under f32.
//!
//! cargo run --release --example kv_quality -- MODEL [TEXT]
//!
//! MODEL is nano, smollm2 or the path of a GGUF file; TEXT the path of a text, without which it is this repository's
//! README, ARCHITECTURE and design notes.

#[allow(dead_code, reason = "shared with the tests")]
#[path = "../tests/support/quality.rs"]
mod quality;

use anyhow::{Context, ensure};
use batchroom::hub::Choice;
use batchroom::launch::{self, BLOCK_SIZE};
use batchroom::model::{KvType, Llama, ModelOptions};
use batchroom::text::{TextModel, TokenizerData};
use quality::{Told, tell};

const OWN_TEXT: &str =
    concat!(include_str!("../README.md"), include_str!("../ARCHITECTURE.md"), include_str!("../docs/design.md"));
/// Tokens that are told in one piece at most.
const WINDOW: usize = 1024;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().context("which model? kv_quality MODEL [TEXT]")?;
    let told = match arguments.next() {
        Some(path) => std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?,
        None => OWN_TEXT.to_owned(),
    };
    let file = launch::open(&Choice::parse(&model)?)?;
    let text = TextModel::new(&TokenizerData::from_gguf(&file)?)?;
    let text_len = told.len();
    let tokens = text.encode_text(&told)?;
    ensure!(tokens.len() > 1, "the text has {} tokens, and the first is not told: give more", tokens.len());

    let mut reference: Option<Told> = None;
    println!("type  bytes/token  bits/byte  against f32  same choices");
    for kv_type in KvType::ALL {
        let num_blocks = WINDOW / BLOCK_SIZE;
        let options = ModelOptions { threads: threads(), kernels: None, block_size: BLOCK_SIZE, num_blocks, kv_type };
        let mut model = Llama::load(&file, options)?;
        let window = WINDOW.min(model.config().context);
        let told = tell(&mut model, &text, &tokens, window)?;
        let first = reference.get_or_insert_with(|| told.clone());
        println!(
            "{:<4}  {:>11}  {:>9.5}  {:>+10.4}%  {:>11.2}%",
            kv_type.name(),
            model.kv_bytes_per_token(),
            told.bits_per_byte(),
            (told.bits_per_byte() / first.bits_per_byte() - 1.0) * 100.0,
            told.agreement(first) * 100.0,
        );
    }
    println!("{} tokens, {} bytes, in pieces of up to {WINDOW} tokens", tokens.len(), text_len);
    Ok(())
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
