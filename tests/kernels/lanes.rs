//! Norms, activations, rotations and attention: families bit by bit, and against f64.

use batchroom::batch::BlockId;
use batchroom::model::KernelKind;
use batchroom::model::kernels::{ActGroup, AttentionScratch, AttentionShape, CodeScale, Kernels, KvCache, KvType, Slot, TOKENS};

use super::support::families;
use super::support::random::Random;

fn kernels(kind: KernelKind) -> Kernels {
    Kernels::select(Some(kind)).unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// A quantized group as plain numbers.
fn group_bits(groups: &[ActGroup]) -> Vec<([i16; 32], u32, u32)> {
    let one = |group: &ActGroup| {
        let scale = if group.scale.is_nan() { 1 } else { group.scale.to_bits() };
        let sum = if group.scaled_sum.is_nan() { 1 } else { group.scaled_sum.to_bits() };
        (group.codes, scale, sum)
    };
    groups.iter().map(one).collect()
}

#[test]
fn exp_is_within_two_units_in_the_last_place() {
    let xs: Vec<f32> = (-8_699..8_800).map(|step| step as f32 * 0.01).chain([0.0, -0.0, 1e-30, -1e-30]).collect();
    for kind in families() {
        let mut out = xs.clone();
        kernels(kind).exp(&mut out);
        for (x, found) in xs.iter().zip(&out) {
            let exact = f64::from(*x).exp();
            let unit = f64::from(f32::from_bits((exact as f32).to_bits() + 1)) - f64::from(exact as f32);
            assert!((f64::from(*found) - exact).abs() <= 2.0 * unit, "{kind}: e^{x} = {found}, not {exact}");
        }
        let mut ends = [f32::NEG_INFINITY, -100.0, f32::INFINITY, 1e30];
        kernels(kind).exp(&mut ends);
        assert_eq!(ends[..2], [0.0, 0.0]);
        assert!(ends[2].is_finite() && ends[2] == ends[3] && ends[2] > 1e38);
    }
}

#[test]
fn families_agree_on_rows() {
    for seed in 0..60u64 {
        let mut random = Random(seed);
        let size = [0.01, 1.0, 100.0, 1e15][random.below(4)];
        let len = 32 * (1 + random.below(8));
        let (x, other) = (random.floats(len, size), random.floats(len, size));
        let odd = 1 + random.below(len);
        let results = |kind: KernelKind| {
            let kernels = kernels(kind);
            let mut normed = vec![0.0; odd];
            kernels.rms_norm(&x[..odd], &other[..odd], 1e-5, &mut normed);
            let mut quantized = vec![ActGroup::ZERO; len / 32];
            kernels.rms_norm_quantize(&x, &other, 1e-5, &mut quantized);
            let mut plain = vec![ActGroup::ZERO; len / 32];
            kernels.quantize(&x, &mut plain);
            let mut gate = x.clone();
            kernels.silu_mul_in_place(&mut gate[..odd], &other[..odd]);
            let mut turned = x.clone();
            kernels.rotate(&mut turned, &other[..len / 2], &other[len / 2..], 0.125);
            (bits(&normed), group_bits(&quantized), group_bits(&plain), bits(&gate), bits(&turned))
        };
        let expected = results(KernelKind::Portable);
        for kind in families() {
            assert_eq!(results(kind), expected, "{kind}, seed {seed}");
        }
    }
}

#[test]
fn norms_and_gates_are_right() {
    let mut random = Random(3);
    let (x, weight) = (random.floats(96, 2.0), random.floats(96, 1.0));
    let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 96.0;
    for kind in families() {
        let mut out = vec![0.0; 96];
        kernels(kind).rms_norm(&x, &weight, 1e-5, &mut out);
        for ((out, x), weight) in out.iter().zip(&x).zip(&weight) {
            let exact = f64::from(*x) / (mean + 1e-5).sqrt() * f64::from(*weight);
            assert!((f64::from(*out) - exact).abs() < 1e-6 * (1.0 + exact.abs()), "{kind}: {out} for {exact}");
        }
        let mut gate = x.clone();
        kernels(kind).silu_mul_in_place(&mut gate, &weight);
        for ((out, x), up) in gate.iter().zip(&x).zip(&weight) {
            let exact = f64::from(*x) / (1.0 + (-f64::from(*x)).exp()) * f64::from(*up);
            assert!((f64::from(*out) - exact).abs() < 1e-6 * (1.0 + exact.abs()), "{kind}: {out} for {exact}");
        }
    }
}

#[test]
fn groups_with_no_numbers_in_them_do_not_spread() {
    for kind in families() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = vec![1.0f32; 64];
            x[5] = bad;
            let mut out = [ActGroup::ZERO; 2];
            kernels(kind).quantize(&x, &mut out);
            assert!(out[0].scale.is_nan() && out[0].codes == [0; 32], "{kind}");
            assert!(out[1].scale == 1.0 / 32767.0 && out[1].codes == [32767; 32], "{kind}");
        }
    }
}

/// What a cache of this type gives back for one head's vector.
fn as_kept(kind: KvType, vector: &[f32]) -> Vec<f32> {
    match kind {
        KvType::F32 => vector.to_vec(),
        KvType::F16 => vector.iter().map(|number| half::f16::from_f32(*number).to_f32()).collect(),
        KvType::Q8_0 => {
            let (codes, scale) = codes_of(vector);
            codes.into_iter().map(|code| f32::from(code) * scale).collect()
        }
    }
}

/// 8-bit codes and their scale, in double precision but for what is defined in single.
fn codes_of(vector: &[f32]) -> (Vec<i8>, f32) {
    let largest = vector.iter().fold(0f32, |largest, number| largest.max(number.abs()));
    let inverse = f64::from(127.0 / largest);
    (vector.iter().map(|number| (f64::from(*number) * inverse).round_ties_even() as i8).collect(), largest / 127.0)
}

#[test]
fn codes_are_rounded_to_the_nearest_and_their_largest_is_127() {
    for seed in 0..60u64 {
        let mut random = Random(seed);
        let size = [1e-20, 0.01, 1.0, 300.0, 1e30][random.below(5)];
        let count = 1 + random.below(200);
        let x = random.floats(count, size);
        let (expected, expected_scale) = codes_of(&x);
        assert_eq!(expected.iter().map(|code| code.unsigned_abs()).max(), Some(127), "seed {seed}");
        for kind in families() {
            let (mut scale, mut codes) = (CodeScale::default(), vec![0; x.len()]);
            kernels(kind).code_scale(&x, &mut scale);
            kernels(kind).to_codes(&x, scale, &mut codes);
            assert_eq!((&codes, scale.scale.to_bits()), (&expected, expected_scale.to_bits()), "{kind}, seed {seed}");
            for (x, code) in x.iter().zip(&codes) {
                let off = (f64::from(*x) - f64::from(*code) * f64::from(scale.scale)).abs();
                assert!(off <= f64::from(scale.scale) * 0.500_01, "{kind}, seed {seed}: {x} as {code}");
            }
        }
    }
}

#[test]
fn codes_of_nothing_are_zeros_and_those_of_no_numbers_make_no_sense() {
    for kind in families() {
        let codes = |x: &[f32]| {
            let (mut scale, mut codes) = (CodeScale::default(), vec![1; x.len()]);
            kernels(kind).code_scale(x, &mut scale);
            kernels(kind).to_codes(x, scale, &mut codes);
            (codes, scale.scale)
        };
        for nothing in [0.0, -0.0, 1e-31, f32::MIN_POSITIVE / 4.0] {
            assert_eq!(codes(&[nothing; 21]), (vec![0; 21], 0.0), "{kind}, {nothing}");
        }
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [0, 17, 20] {
                let mut x = [1.0; 21];
                x[at] = bad;
                let (codes, scale) = codes(&x);
                assert!(codes == [0; 21] && scale.is_nan(), "{kind}, {bad} at {at}");
            }
        }
        assert_eq!(codes(&[f32::MAX, f32::MIN, 0.0]), (vec![127, -127, 0], f32::MAX / 127.0), "{kind}");
    }
}

#[test]
fn halves_are_rounded_as_ieee_says_and_never_infinite() {
    let mut random = Random(3);
    let mut x = random.floats(4096, 3.0);
    x.extend([
        0.0,
        -0.0,
        1.0,
        65503.9,
        65504.0,
        65519.9,
        65520.0,
        -1e30,
        f32::INFINITY,
        6e-8,
        2.98e-8,
        2.9e-8,
        -6.1e-5,
        f32::MIN_POSITIVE,
    ]);
    // Halfway between two halves: to the even one.
    x.extend([1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 2049.0, 2051.0]);
    let most = half::f16::MAX;
    let expected: Vec<u16> = x.iter().map(|x| half::f16::from_f32(x.clamp(-65504.0, 65504.0)).to_bits()).collect();
    assert!(expected.iter().all(|bits| half::f16::from_bits(*bits).to_f32().abs() <= most.to_f32()));
    for kind in families() {
        let mut out = vec![0; x.len()];
        kernels(kind).to_halves(&x, &mut out);
        assert_eq!(out, expected, "{kind}");
        kernels(kind).to_halves(&[f32::NAN; 3], &mut out[..3]);
        assert!(out[..3].iter().all(|bits| half::f16::from_bits(*bits).is_nan()), "{kind}");
    }
}

#[test]
fn floats_on_and_beside_every_half_and_every_middle_are_rounded_as_ieee_says() {
    let finite = (0..0x7c00u16).map(|bits| half::f16::from_bits(bits).to_f32());
    let floats = finite.clone().zip(finite.skip(1)).flat_map(|(low, high)| {
        let middle = f32::midpoint(low, high);
        [low.to_bits(), middle.to_bits() - 1, middle.to_bits(), middle.to_bits() + 1].map(f32::from_bits)
    });
    let x: Vec<f32> = floats.flat_map(|x| [x, -x]).collect();
    let expected: Vec<u16> = x.iter().map(|x| half::f16::from_f32(*x).to_bits()).collect();
    for kind in families() {
        let mut out = vec![0; x.len()];
        kernels(kind).to_halves(&x, &mut out);
        let wrong = out.iter().zip(&expected).position(|(out, expected)| out != expected);
        assert_eq!(wrong.map(|at| (x[at], out[at], expected[at])), None, "{kind}");
    }
}

/// Random keys and values of one sequence in shuffled blocks; unused slots hold rubbish.
struct Pages {
    cache: KvCache,
    table: Vec<BlockId>,
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

fn pages(shape: AttentionShape, kind: KvType, count: usize, random: &mut Random) -> Pages {
    let blocks = count.div_ceil(shape.block_size) + 2;
    let mut cache = KvCache::new(shape, kind, 1, blocks).unwrap();
    let mut table: Vec<BlockId> = (0..blocks as u32).map(BlockId).collect();
    random.shuffle(&mut table);
    let width = shape.kv_heads * shape.head_dim;
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let writer = cache.writer(0);
    for position in 0..blocks * shape.block_size {
        let rubbish = position >= count;
        let mut row = || if rubbish { vec![f32::NAN; width] } else { random.floats(width, 1.0) };
        let (key, value) = (row(), row());
        let slot = Slot { block: table[position / shape.block_size], slot: position % shape.block_size };
        // SAFETY: one thread.
        unsafe { writer.write(Kernels::fastest(), slot, &key, &value) };
        let kept = |row: &[f32]| row.chunks_exact(shape.head_dim).flat_map(|head| as_kept(kind, head)).collect();
        keys.push(kept(&key));
        values.push(kept(&value));
    }
    Pages { cache, table, keys, values }
}

fn attend(kind: KernelKind, pages: &Pages, head: usize, count: usize, queries: &[f32]) -> Vec<f32> {
    let shape = pages.cache.shape();
    let mut scratch = AttentionScratch::default();
    scratch.reserve(shape, count);
    let mut out = vec![0.0; queries.len()];
    kernels(kind).attend(shape, &pages.cache.layer(0), &pages.table, head, 1, count, queries, &mut scratch, &mut out);
    out
}

/// Tokens that are attended to together get the same bits as each of them alone.
fn together_as_alone(pages: &Pages, head: usize, count: usize, random: &mut Random, seed: u64) {
    let shape = pages.cache.shape();
    let tokens = count.min(1 + random.below(TOKENS));
    let first = count + 1 - tokens;
    let width = shape.group * shape.head_dim;
    let queries = random.floats(tokens * width, 1.0);
    for kind in families().chain([KernelKind::Portable]) {
        let mut scratch = AttentionScratch::default();
        scratch.reserve(shape, count);
        let mut out = vec![0.0; queries.len()];
        let layer = pages.cache.layer(0);
        kernels(kind).attend(shape, &layer, &pages.table, head, tokens, first, &queries, &mut scratch, &mut out);
        for (token, (queries, out)) in queries.chunks_exact(width).zip(out.chunks_exact(width)).enumerate() {
            let alone = attend(kind, pages, head, first + token, queries);
            assert_eq!(bits(out), bits(&alone), "{kind}, seed {seed}, {shape:?}, token {token} of {tokens} from {first}");
        }
    }
}

#[test]
fn attention_agrees_bit_by_bit_and_is_right() {
    for seed in 0..60u64 {
        let mut random = Random(seed);
        let shape = AttentionShape {
            block_size: [16, 32, 48][random.below(3)],
            kv_heads: 1 + random.below(3),
            group: 1 + random.below(9),
            head_dim: [16, 24, 32, 64, 80, 128][random.below(6)],
        };
        let count = 1 + random.below(if seed % 10 == 0 { 400 } else { 100 });
        let kept = KvType::ALL[random.below(3)];
        let pages = pages(shape, kept, count, &mut random);
        let head = random.below(shape.kv_heads);
        let queries = random.floats(shape.group * shape.head_dim, 1.0);
        let expected = attend(KernelKind::Portable, &pages, head, count, &queries);
        for kind in families() {
            assert_eq!(
                bits(&attend(kind, &pages, head, count, &queries)),
                bits(&expected),
                "{kind}, seed {seed}, {shape:?}, {kept}, {count}"
            );
        }
        together_as_alone(&pages, head, count, &mut random, seed);
        let at = head * shape.head_dim..(head + 1) * shape.head_dim;
        for (query, out) in queries.chunks_exact(shape.head_dim).zip(expected.chunks_exact(shape.head_dim)) {
            let dot = |key: &[f32]| key.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            let weights: Vec<f64> = pages.keys[..count].iter().map(|key| dot(&key[at.clone()]).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (dim, found) in out.iter().enumerate() {
                let values = pages.values[..count].iter().map(|value| f64::from(value[at.start + dim]));
                let exact = values.zip(&weights).map(|(value, weight)| value * weight / total).sum::<f64>();
                assert!((f64::from(*found) - exact).abs() < 2e-6, "seed {seed}: {found} for {exact}");
            }
        }
    }
}

#[test]
fn families_write_the_same_bytes() {
    for seed in 0..20u64 {
        let mut random = Random(seed);
        let head_dim = 1 + random.below(160);
        let shape = AttentionShape { block_size: 32, kv_heads: 1 + random.below(3), group: 1, head_dim };
        let width = shape.kv_heads * head_dim;
        let rows: Vec<_> = (0..5).map(|_| (random.below(64), random.floats(width, 2.0), random.floats(width, 2.0))).collect();
        for kv_type in KvType::ALL {
            let written = |kind: KernelKind| {
                let mut cache = KvCache::new(shape, kv_type, 2, 2).unwrap();
                let writer = cache.writer(1);
                for (slot, key, value) in &rows {
                    let slot = Slot { block: BlockId(*slot as u32 / 32), slot: slot % 32 };
                    // SAFETY: one thread.
                    unsafe { writer.write(kernels(kind), slot, key, value) };
                }
                assert!(cache.layer_bytes(0).iter().all(|byte| *byte == 0), "{kv_type}, seed {seed}: the other layer");
                cache.layer_bytes(1).to_vec()
            };
            let expected = written(KernelKind::Portable);
            assert!(expected.iter().any(|byte| *byte != 0));
            for kind in families() {
                assert!(written(kind) == expected, "{kind}, {kv_type}, seed {seed}");
            }
        }
    }
}

#[test]
fn memory_is_counted_with_its_scales() {
    // Heads of 64: 64 codes and 4 bytes of scale, for keys and for values.
    let shape = AttentionShape { block_size: 16, kv_heads: 3, group: 3, head_dim: 64 };
    let bytes = |shape, kind| KvCache::new(shape, kind, 5, 2).unwrap().block_bytes();
    let positions = 5 * 3 * 16;
    assert_eq!(KvType::ALL.map(|kind| bytes(shape, kind)), [256, 128, 68].map(|vector| 2 * vector * positions));
    // Values lie in whole vectors of 16 numbers.
    let odd = AttentionShape { head_dim: 20, ..shape };
    assert_eq!(KvType::ALL.map(|kind| bytes(odd, kind)), [208, 104, 20 + 4 + 32 + 4].map(|both| both * positions));
}

#[test]
fn a_copied_block_is_the_same_block() {
    let shape = AttentionShape { block_size: 16, kv_heads: 2, group: 2, head_dim: 32 };
    for kind in KvType::ALL {
        let mut random = Random(1);
        let mut pages = pages(shape, kind, 16, &mut random);
        let queries = random.floats(64, 1.0);
        let before = attend(KernelKind::Portable, &pages, 1, 16, &queries);
        let (from, to) = (pages.table[0], pages.table[2]);
        pages.cache.copy_block(from, to);
        pages.table[0] = to;
        assert_eq!(bits(&attend(KernelKind::Portable, &pages, 1, 16, &queries)), bits(&before), "{kind}");
    }
}
