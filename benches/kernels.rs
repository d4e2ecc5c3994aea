//! Products of one matrix of each type with several rows at once, on one thread, from the caches: the arithmetic.
//! Throughput is in multiply-adds.

use batchroom::model::kernels::{Activations, Ahead, Kernels, Matrix, Part, Pool};
use batchroom::model::{GgmlType, synthetic_types};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// A matrix of 512 x 1024: 2 MB at most, which the caches hold.
const OUTPUTS: usize = 512;
const INPUTS: usize = 1024;
const ROWS: [usize; 5] = [1, 4, 8, 16, 32];

/// Codes of every value, scales of about a hundredth; the floats are all about a hundredth, or one.
fn matrix(ggml_type: GgmlType) -> Matrix {
    let blocks = OUTPUTS * INPUTS / ggml_type.block_elements();
    let mut data = vec![0x3c; blocks * ggml_type.block_bytes()];
    if let Some(halves) = ggml_type.halves() {
        for (index, byte) in data.iter_mut().enumerate() {
            *byte = (index * 151 + index / 97) as u8;
        }
        for block in data.chunks_exact_mut(ggml_type.block_bytes()) {
            block[halves.clone()].fill(0x21);
        }
    }
    Matrix::new(ggml_type, OUTPUTS, INPUTS, &data).expect("a matrix")
}

fn products(c: &mut Criterion) {
    let (pool, kernels) = (Pool::new(1).expect("a pool"), Kernels::select(None).expect("kernels"));
    for ggml_type in synthetic_types() {
        let weights = matrix(ggml_type);
        let mut group = c.benchmark_group(format!("product/{}/{ggml_type}", kernels.kind()));
        for rows in ROWS {
            let x: Vec<f32> = (0..rows * INPUTS).map(|index| ((index * 37 % 101) as f32 - 50.0) / 25.0).collect();
            let mut inputs = Activations::default();
            inputs.shape(rows, INPUTS, [&weights]);
            inputs.fill(&pool, kernels, &x).expect("inputs");
            let mut out = vec![0.0; rows * OUTPUTS];
            let parts = [Part { weights: &weights, column: 0 }];
            group.throughput(Throughput::Elements((rows * OUTPUTS * INPUTS) as u64));
            group.bench_function(BenchmarkId::from_parameter(rows), |b| {
                b.iter(|| kernels.multiply(&pool, &parts, &inputs, &mut out, OUTPUTS, false, Ahead::NOTHING).expect("a product"));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, products);
criterion_main!(benches);
