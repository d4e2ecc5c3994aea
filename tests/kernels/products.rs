//! Weights: repacking against candle's dequantization, products between kernel families and against f64.

use batchroom::model::kernels::{Activations, Ahead, Kernels, Matrix, Part, Pool};
use batchroom::model::{GgmlType, KernelKind};
use candle_core::Device;
use candle_core::quantized::ggml_file::qtensor_from_ggml;

use super::support::families;
use super::support::random::Random;
use super::support::tiny::candle_type;

const TYPES: [GgmlType; 13] = [
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
    GgmlType::Q8_0,
    GgmlType::Q2_K,
    GgmlType::Q3_K,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::F16,
    GgmlType::BF16,
    GgmlType::F32,
];

/// What the bytes of random weights are like.
#[derive(Clone, Copy, Debug)]
enum Flavour {
    Any,
    /// Every code as large as it can be.
    MaxCodes,
    /// Every code zero: the most negative weight where there is an offset.
    ZeroCodes,
    ZeroScales,
}

const FLAVOURS: [Flavour; 4] = [Flavour::Any, Flavour::MaxCodes, Flavour::ZeroCodes, Flavour::ZeroScales];

/// Where a block keeps its f16 numbers.
fn halves_of(ggml_type: GgmlType) -> &'static [usize] {
    match ggml_type {
        GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 => &[0],
        GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => &[0, 2],
        GgmlType::Q2_K => &[80, 82],
        GgmlType::Q3_K => &[108],
        GgmlType::Q6_K => &[208],
        _ => &[],
    }
}

/// Random blocks whose scales and floats are numbers of a sensible size (and any sign).
fn blocks(ggml_type: GgmlType, count: usize, flavour: Flavour, random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..count / ggml_type.block_elements() {
        let value = random.unit() * if random.below(8) == 0 { 0.0 } else { 0.5 };
        match ggml_type {
            GgmlType::F32 => out.extend(value.to_le_bytes()),
            GgmlType::F16 => out.extend(half::f16::from_f32(value).to_le_bytes()),
            GgmlType::BF16 => out.extend(half::bf16::from_f32(value).to_le_bytes()),
            _ => {
                let byte = |random: &mut Random| match flavour {
                    Flavour::Any | Flavour::ZeroScales => random.bits() as u8,
                    Flavour::MaxCodes => 0xff,
                    Flavour::ZeroCodes => 0,
                };
                let mut block: Vec<u8> = (0..ggml_type.block_bytes()).map(|_| byte(random)).collect();
                if matches!((ggml_type, flavour), (GgmlType::Q8_0, Flavour::MaxCodes)) {
                    // Signed here: all of one sign, the largest or the smallest.
                    block.fill(if random.below(2) == 0 { 0x7f } else { 0x80 });
                }
                for at in halves_of(ggml_type) {
                    let scale = if matches!(flavour, Flavour::ZeroScales) { 0.0 } else { random.unit() * 0.02 };
                    block[*at..at + 2].copy_from_slice(&half::f16::from_f32(scale).to_le_bytes());
                }
                out.extend(block);
            }
        }
    }
    out
}

fn activations(matrix: &Matrix, pool: &Pool, kernels: Kernels, x: &[f32]) -> Activations {
    let mut out = Activations::default();
    out.shape(x.len() / matrix.k(), matrix.k(), [matrix]);
    out.fill(pool, kernels, x).unwrap();
    out
}

fn product(kind: KernelKind, threads: usize, matrix: &Matrix, x: &[f32], add: bool) -> Vec<u32> {
    let (pool, kernels) = (Pool::new(threads).unwrap(), Kernels::select(Some(kind)).unwrap());
    let inputs = activations(matrix, &pool, kernels, x);
    // Columns to both sides must stay as they are.
    let (stride, column) = (matrix.rows() + 5, 3);
    let mut out = vec![0.25f32; inputs.rows() * stride];
    kernels.multiply(&pool, &[Part { weights: matrix, column }], &inputs, &mut out, stride, add, Ahead::NOTHING).unwrap();
    for row in out.chunks_exact(stride) {
        assert!(row[..column].iter().chain(&row[column + matrix.rows()..]).all(|value| *value == 0.25), "{kind}: outside");
    }
    out.iter().map(|value| if value.is_nan() { u32::MAX } else { value.to_bits() }).collect()
}

/// Activations of one kind per group of 32: ordinary, huge, tiny, zero, full scale.
fn inputs(count: usize, random: &mut Random) -> Vec<f32> {
    let mut out = Vec::new();
    while out.len() < count {
        let kind = random.below(6);
        let value = |random: &mut Random| match kind {
            0 => 0.0,
            1 => random.unit() * 1e30,
            2 => random.unit() * 1e-35,
            3 => 127.0 * if random.below(2) == 0 { 1.0 } else { -1.0 },
            4 => 127.0,
            _ => random.unit() * 3.0,
        };
        out.extend((0..32).map(|_| value(random)));
    }
    out.truncate(count);
    out
}

#[test]
fn repacked_rows_are_what_candle_dequantizes() {
    for (seed, ggml_type) in TYPES.into_iter().enumerate() {
        for flavour in FLAVOURS {
            let mut random = Random(seed as u64);
            for rows in [1, 15, 16, 17, 50] {
                let k = ggml_type.block_elements().max(32) * (1 + random.below(3));
                let data = blocks(ggml_type, rows * k, flavour, &mut random);
                let matrix = Matrix::new(ggml_type, rows, k, &data).unwrap();
                let theirs = qtensor_from_ggml(candle_type(ggml_type), &data, vec![rows, k], &Device::Cpu).unwrap();
                let theirs = theirs.dequantize(&Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
                let mut ours = vec![0.0; k];
                for (row, theirs) in theirs.iter().enumerate() {
                    matrix.row(row, &mut ours);
                    assert_eq!(&ours, theirs, "{ggml_type}, {flavour:?}, row {row} of {rows}, seed {seed}");
                }
            }
        }
    }
}

#[test]
fn families_and_threads_and_tiles_agree_bit_by_bit() {
    for seed in 0..195u64 {
        let mut random = Random(seed);
        let ggml_type = TYPES[seed as usize % TYPES.len()];
        let flavour = FLAVOURS[random.below(4)];
        let unit = if ggml_type.block_elements() == 1 { 1 } else { ggml_type.block_elements() };
        let k = if unit == 1 { 1 + random.below(70) } else { unit * (1 + random.below(3)) };
        let (outputs, rows, add) = (1 + random.below(80), 1 + random.below(20), random.below(2) == 0);
        let matrix = Matrix::new(ggml_type, outputs, k, &blocks(ggml_type, outputs * k, flavour, &mut random)).unwrap();
        let x = inputs(rows * k, &mut random);
        let expected = product(KernelKind::Portable, 1, &matrix, &x, add);
        let what = format!("seed {seed}: {ggml_type} {flavour:?} {outputs} x {k}, {rows} rows, add {add}");
        for kind in families() {
            for threads in [1, 2, 5] {
                assert_eq!(product(kind, threads, &matrix, &x, add), expected, "{kind}, {threads} threads, {what}");
            }
            // Any one row alone is that row of all.
            let row = random.below(rows);
            let alone = product(kind, 1, &matrix, &x[row * k..][..k], add);
            assert_eq!(alone, expected[row * (outputs + 5)..][..outputs + 5], "{kind}, row {row} alone, {what}");
        }
    }
}

#[test]
fn many_rows_over_many_panels_agree_bit_by_bit() {
    // More rows than a tile and more panels than a cacheful.
    let mut random = Random(99);
    for ggml_type in [GgmlType::Q4_1, GgmlType::Q8_0, GgmlType::Q2_K, GgmlType::Q5_K, GgmlType::Q6_K] {
        let (outputs, k, rows) = (600, 512, 37);
        let matrix = Matrix::new(ggml_type, outputs, k, &blocks(ggml_type, outputs * k, Flavour::Any, &mut random)).unwrap();
        let x = inputs(rows * k, &mut random);
        let expected = product(KernelKind::Portable, 1, &matrix, &x, false);
        for kind in families() {
            assert_eq!(product(kind, 2, &matrix, &x, false), expected, "{kind}, {ggml_type}");
        }
    }
}

#[test]
fn products_are_right() {
    let mut random = Random(5);
    for ggml_type in TYPES {
        let (outputs, k, rows) = (33, 256, 3);
        let matrix = Matrix::new(ggml_type, outputs, k, &blocks(ggml_type, outputs * k, Flavour::Any, &mut random)).unwrap();
        let x = random.floats(rows * k, 2.0);
        let (pool, kernels) = (Pool::new(1).unwrap(), Kernels::fastest());
        let mut out = vec![0.0; rows * outputs];
        let inputs = activations(&matrix, &pool, kernels, &x);
        kernels
            .multiply(&pool, &[Part { weights: &matrix, column: 0 }], &inputs, &mut out, outputs, false, Ahead::NOTHING)
            .unwrap();
        let mut weights = vec![0.0; k];
        for output in 0..outputs {
            matrix.row(output, &mut weights);
            for row in 0..rows {
                let terms = weights.iter().zip(&x[row * k..]).map(|(w, x)| f64::from(*w) * f64::from(*x));
                let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                // Activations in 16 bits are off by half a step of 1/32767 of their group's largest.
                let allowed = size * if matrix.layout().is_float() { 1e-5 } else { 5e-5 };
                let found = f64::from(out[row * outputs + output]);
                assert!((found - exact).abs() <= allowed, "{ggml_type}: {found} for {exact}");
            }
        }
    }
}

#[test]
fn every_weight_of_sixteen_bits_is_read_exactly() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let of_half = |bits: u16| half::f16::from_bits(bits).to_f32();
    let of_brain = |bits: u16| half::bf16::from_bits(bits).to_f32();
    for (ggml_type, read) in [(GgmlType::F16, of_half as fn(u16) -> f32), (GgmlType::BF16, of_brain)] {
        let matrix = Matrix::new(ggml_type, 1 << 16, 1, &all).unwrap();
        // What is added to zero is plus zero when it is minus zero, and any NaN is one NaN here.
        let exact = |bits| read(bits) + 0.0;
        let expected: Vec<u32> = (0..=u16::MAX).map(exact).map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect();
        for kind in families() {
            let found = product(kind, 1, &matrix, &[1.0], false);
            assert_eq!(found[3..][..1 << 16], expected, "{kind}, {ggml_type}");
        }
    }
}

#[test]
fn matrices_of_impossible_size_are_refused() {
    for (ggml_type, rows, k, bytes) in [
        (GgmlType::Q4_0, 1, 33, 18),
        (GgmlType::Q4_K, 1, 128, 72),
        (GgmlType::Q8_0, 2, 32, 34),
        (GgmlType::F32, 0, 4, 0),
        (GgmlType::F32, usize::MAX / 2, 4, 16),
        (GgmlType::I32, 1, 1, 4),
    ] {
        let error = Matrix::new(ggml_type, rows, k, &vec![0; bytes]).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}
