//! Once warm, a step of the model asks for no memory.

#[path = "../support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use batchroom::batch::{Batch, BlockCopy, BlockId, RequestId, Row, RowKind, UserId};
use batchroom::model::{KvType, Llama, ModelOptions};

thread_local! {
    /// Allocations of this thread: with one thread it does all the work, with two its share.
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator, with a count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Four users at this position.
fn batch(position: usize) -> Batch {
    let row = |user: usize| Row {
        id: RequestId(user as u64),
        user: UserId(user as u32),
        start: position,
        tokens: user..user + 1,
        blocks: user * 4..user * 4 + 4,
        kind: RowKind::Decode,
        samples: true,
    };
    let rows = (0..4).map(row).collect();
    // One of the unused blocks after another.
    let copies = vec![BlockCopy { from: BlockId(position as u32 % 16), to: BlockId(16 + position as u32 % 2) }];
    Batch { step: 1, rows, tokens: vec![5, 6, 7, 8], blocks: (0..16).map(BlockId).collect(), copies }
}

#[test]
fn a_warm_step_allocates_nothing() {
    let batches: Vec<Batch> = (0..64).map(batch).collect();
    for (threads, kv_type) in [1, 2].into_iter().flat_map(|threads| KvType::ALL.map(|kv_type| (threads, kv_type))) {
        let options = ModelOptions { threads, kernels: None, block_size: 16, num_blocks: 18, kv_type };
        let mut model = Llama::load(&support::nano(), options).unwrap();
        // The longest context first, so that no buffer has to grow later.
        model.forward(&batches[63]).unwrap();
        let before = COUNT.get();
        for batch in &batches {
            model.forward(batch).unwrap();
        }
        assert_eq!(COUNT.get() - before, 0, "allocations in 64 steps on {threads} threads, {kv_type}");
    }
}
