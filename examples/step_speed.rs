//! How fast the model steps: decode tokens per second for a number of users at a context of about 128, and prefill
//! tokens per second, without scheduler, sampling or screens.
//!
//! ```text
//! cargo run --release --example step_speed -- model.gguf [threads [users [kv type]]]
//! ```

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use batchroom::batch::{Batch, BlockId, RequestId, Row, RowKind, UserId};
use batchroom::model::{GgufFile, KvType, Llama, ModelOptions};

const BLOCK: usize = 16;
/// Where decoding begins; it goes on for [`STEPS`] positions.
const CONTEXT: usize = 112;
const STEPS: usize = 32;
const USERS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The fastest step of so many tries counts: other programs only ever make it slower.
const TRIES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("usage: step_speed MODEL.gguf [THREADS [USERS [KV_TYPE]]]")?);
    let threads = match arguments.next() {
        Some(text) => text.to_str().ok_or("THREADS is no number")?.parse()?,
        None => std::thread::available_parallelism()?.get(),
    };
    let users = match arguments.next() {
        Some(text) => vec![text.to_str().ok_or("USERS is no number")?.parse()?],
        None => USERS.to_vec(),
    };
    let kv_type = match arguments.next() {
        Some(text) => text.to_str().ok_or("KV_TYPE is no name")?.parse()?,
        None => KvType::default(),
    };
    let most = users.iter().copied().max().unwrap_or(1);
    let blocks_each = (CONTEXT + STEPS).div_ceil(BLOCK);
    let num_blocks = most * blocks_each;
    let options = ModelOptions { threads, kernels: None, block_size: BLOCK, num_blocks, kv_type };
    let mut model = Llama::load(&GgufFile::open(&path)?, options)?;
    println!("{}: {}, {} kernels, {} threads", path.display(), model.types(), model.kernels(), model.threads());
    println!("{:.1} MB of weights a step", model.weight_bytes() as f64 / 1e6);

    for length in [64, CONTEXT] {
        let mut best = f64::INFINITY;
        for _ in 0..TRIES {
            let begun = Instant::now();
            model.forward(&batch(1, 0, length, blocks_each))?;
            best = best.min(begun.elapsed().as_secs_f64());
        }
        println!("prefill of {length:3}: {:8.1} tok/s", length as f64 / best);
    }
    let mut alone = 0.0;
    for users in users {
        for user in 0..users {
            let mut prompt = batch(user + 1, 0, CONTEXT, blocks_each);
            prompt.rows.drain(..user);
            model.forward(&prompt)?;
        }
        let mut best = f64::INFINITY;
        for _ in 0..TRIES {
            for step in 0..STEPS {
                let batch = batch(users, CONTEXT + step, 1, blocks_each);
                let begun = Instant::now();
                model.forward(&batch)?;
                best = best.min(begun.elapsed().as_secs_f64());
            }
        }
        let speed = users as f64 / best;
        alone = if alone == 0.0 { speed } else { alone };
        println!("decode, {users:2} users: {speed:8.1} tok/s ({:.2} ms a step, {:.2} x the first)", best * 1e3, speed / alone);
    }
    Ok(())
}

/// `len` tokens of each user from position `start` on. What the tokens are makes no difference to the speed.
fn batch(users: usize, start: usize, len: usize, blocks_each: usize) -> Batch {
    let mut batch = Batch::default();
    for user in 0..users {
        let (tokens, blocks) = (batch.tokens.len(), batch.blocks.len());
        batch.tokens.extend((0..len).map(|index| ((user * 31 + (start + index) * 7) % 200 + 3) as u32));
        batch.blocks.extend((0..blocks_each).map(|index| BlockId((user * blocks_each + index) as u32)));
        batch.rows.push(Row {
            id: RequestId(user as u64),
            user: UserId(user as u32),
            start,
            tokens: tokens..batch.tokens.len(),
            blocks: blocks..batch.blocks.len(),
            kind: if len == 1 { RowKind::Decode } else { RowKind::Prefill },
            samples: true,
        });
    }
    batch
}
