//! Attention of one token over its past, and of four that follow one another (as in a prompt), all KV heads, on one thread:
//! by head shape, type of keys and values, and context. Throughput is in positions, each counted once for each token.

use batchroom::batch::BlockId;
use batchroom::model::kernels::{AttentionScratch, AttentionShape, Kernels, KvCache, KvType, Slot, TOKENS};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const CONTEXTS: [usize; 3] = [128, 1024, 4096];

/// Heads of SmolLM2-135M and of Llama-3-8B.
const SHAPES: [(&str, AttentionShape); 2] = [
    ("3x3 heads of 64", AttentionShape { block_size: 16, kv_heads: 3, group: 3, head_dim: 64 }),
    ("8x4 heads of 128", AttentionShape { block_size: 16, kv_heads: 8, group: 4, head_dim: 128 }),
];

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
}

/// A sequence of so many positions, in blocks that do not lie side by side.
fn pages(kernels: Kernels, shape: AttentionShape, kv_type: KvType, count: usize) -> (KvCache, Vec<BlockId>) {
    let blocks = count.div_ceil(shape.block_size);
    let mut cache = KvCache::new(shape, kv_type, 1, blocks).expect("memory");
    let table: Vec<BlockId> = (0..blocks).map(|index| BlockId((index * 37 % blocks) as u32)).collect();
    let writer = cache.writer(0);
    for position in 0..count {
        let slot = Slot { block: table[position / shape.block_size], slot: position % shape.block_size };
        let [keys, values] = [0, 1].map(|seed| numbers(shape.kv_heads * shape.head_dim, position * 2 + seed));
        // SAFETY: one thread writes.
        unsafe { writer.write(kernels, slot, &keys, &values) };
    }
    (cache, table)
}

fn attention(c: &mut Criterion) {
    let kernels = Kernels::select(None).expect("kernels");
    for ((name, shape), kv_type) in SHAPES.into_iter().flat_map(|shape| KvType::ALL.map(|kv_type| (shape, kv_type))) {
        let mut group = c.benchmark_group(format!("attention/{}/{name}/{kv_type}", kernels.kind()));
        for (count, tokens) in CONTEXTS.into_iter().flat_map(|count| [(count, 1), (count, TOKENS)]) {
            let width = tokens * shape.group * shape.head_dim;
            let queries: Vec<f32> = numbers(width, 5).iter().map(|query| query / (shape.head_dim as f32).sqrt()).collect();
            let (cache, table) = pages(kernels, shape, kv_type, count);
            let mut scratch = AttentionScratch::default();
            scratch.reserve(&shape, count);
            let mut out = vec![0.0; width];
            let first = count + 1 - tokens;
            group.throughput(Throughput::Elements((count * tokens) as u64));
            group.bench_function(BenchmarkId::new(format!("{tokens} tokens"), count), |b| {
                b.iter(|| {
                    for head in 0..shape.kv_heads {
                        kernels.attend(&shape, &cache.layer(0), &table, head, tokens, first, &queries, &mut scratch, &mut out);
                    }
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, attention);
criterion_main!(benches);
