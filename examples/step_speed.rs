//! How fast one step of a model is, without scheduler, tokenizer or sampling:
//! `cargo run --release --example step_speed -- MODEL.gguf [THREADS] [avx512|avx2|portable]`.
//!
//! Prints prefill of one prompt at several lengths (the best of five), then decode at contexts around 128 tokens for
//! growing numbers of users (the median of 64 steps).

use std::path::Path;
use std::time::Instant;

use batchroom::batch::{Batch, BlockId, RequestId, Row, RowKind, UserId};
use batchroom::model::{GgufFile, Llama, ModelOptions};

const BLOCK_SIZE: usize = 16;
/// Blocks of one user: 512 tokens and some.
const BLOCKS: usize = 40;
const USERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Adds `count` made-up tokens of one user from position `start` on.
fn add_row(batch: &mut Batch, user: usize, start: usize, count: usize, vocab: usize) {
    let (tokens, blocks) = (batch.tokens.len(), batch.blocks.len());
    batch.tokens.extend((start..start + count).map(|position| ((position * 31 + user * 7 + 11) % vocab) as u32));
    let needed = (start + count).div_ceil(BLOCK_SIZE);
    batch.blocks.extend((0..needed).map(|block| BlockId((user * BLOCKS + block) as u32)));
    batch.rows.push(Row {
        id: RequestId(user as u64),
        user: UserId(user as u32),
        start,
        tokens: tokens..tokens + count,
        blocks: blocks..blocks + needed,
        kind: if count == 1 { RowKind::Decode } else { RowKind::Prefill },
        samples: true,
    });
}

/// Seconds that one pass takes.
fn time(model: &mut Llama, batch: &Batch) -> Result<f64, Box<dyn std::error::Error>> {
    let begin = Instant::now();
    model.forward(batch)?;
    Ok(begin.elapsed().as_secs_f64())
}

fn prefill(model: &mut Llama, count: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let mut batch = Batch::default();
    add_row(&mut batch, 0, 0, count, model.vocab());
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        best = best.min(time(model, &batch)?);
    }
    Ok(best)
}

fn decode(model: &mut Llama, users: usize) -> Result<f64, Box<dyn std::error::Error>> {
    for user in 0..users {
        let mut batch = Batch::default();
        add_row(&mut batch, user, 0, 96, model.vocab());
        model.forward(&batch)?;
    }
    let mut times = Vec::new();
    for position in 96..160 {
        let mut batch = Batch::default();
        (0..users).for_each(|user| add_row(&mut batch, user, position, 1, model.vocab()));
        times.push(time(model, &batch)?);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: step_speed MODEL.gguf [THREADS] [avx512|avx2|portable]")?;
    let threads = arguments.next().map_or(Ok(2), |threads| threads.parse())?;
    let kernels = arguments.next().map(|kernels| kernels.parse()).transpose()?;
    let begin = Instant::now();
    let file = GgufFile::open(Path::new(&path))?;
    let options = ModelOptions { threads, kernels, block_size: BLOCK_SIZE, num_blocks: BLOCKS * 64 };
    let mut model = Llama::load(&file, options)?;
    let load = begin.elapsed().as_secs_f64() * 1e3;
    let megabytes = model.weight_bytes() as f64 / 1e6;
    println!(
        "{}: {}, {megabytes:.1} MB a step, {} on {threads} threads, loaded in {load:.0} ms",
        path,
        model.types(),
        model.kernels()
    );
    for count in [16, 64, 256, 512] {
        let seconds = prefill(&mut model, count)?;
        println!("prefill {count:>4}: {:>8.2} ms {:>7.0} tok/s", seconds * 1e3, count as f64 / seconds);
    }
    for users in USERS {
        let seconds = decode(&mut model, users)?;
        let bandwidth = megabytes / seconds / 1e3;
        println!(
            "decode {users:>3} users: {:>7.2} ms {:>7.0} tok/s {bandwidth:>6.1} GB/s of weights",
            seconds * 1e3,
            users as f64 / seconds
        );
    }
    Ok(())
}
