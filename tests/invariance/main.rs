//! A sequence's logits are the same bits however it is batched, chunked, placed, threaded, interrupted, and whichever
//! kernels compute it.

#[path = "../support/mod.rs"]
mod support;

use batchroom::model::{GgmlType, GgufFile, KernelKind, KvType, Llama, ModelOptions};
use support::random::Random;
use support::sequences::{Manner, generate};
use support::tiny::Tiny;

const STEPS: usize = 5;

fn load(file: &GgufFile, threads: usize, kind: KernelKind, block_size: usize, kv_type: KvType) -> Llama {
    let num_blocks = 2048 / block_size;
    Llama::load(file, ModelOptions { threads, kernels: Some(kind), block_size, num_blocks, kv_type }).unwrap()
}

/// Sixteen prompts of unlike length.
fn prompts(vocab: usize) -> Vec<Vec<u32>> {
    let mut random = Random(42);
    let lengths = [1, 2, 3, 7, 15, 16, 17, 4, 31, 6, 33, 8, 5, 64, 9, 40];
    lengths.iter().map(|length| (0..*length).map(|_| random.below(vocab) as u32).collect()).collect()
}

/// Holds every manner of running against each prompt alone on one thread with the plain kernels.
fn check(name: &str, file: &GgufFile, kv_type: KvType) {
    let mut reference = load(file, 1, KernelKind::Portable, 16, kv_type);
    let prompts = prompts(reference.vocab());
    let alone: Vec<_> = prompts
        .iter()
        .map(|prompt| generate(&mut reference, std::slice::from_ref(prompt), STEPS, &Manner::default()).remove(0))
        .collect();
    assert!(alone.iter().flatten().flatten().all(|bits| f32::from_bits(*bits).is_finite()), "{name}: numbers, at least");
    let manners = [
        (2, Manner::default()),
        (5, Manner { chunk: 7, shuffled: true, seed: 3, ..Manner::default() }),
        (16, Manner::default()),
        (16, Manner { chunk: 1, shuffled: true, seed: 4, ..Manner::default() }),
        (16, Manner { chunk: 64, stagger: 1, shuffled: true, seed: 5, ..Manner::default() }),
        (16, Manner { chunk: 7, stagger: 2, shuffled: true, preempt_at: Some(9), seed: 6 }),
        (3, Manner { preempt_at: Some(3), shuffled: true, seed: 7, ..Manner::default() }),
    ];
    for kind in support::families() {
        // The plain kernels are slow, and so are more threads than cores: they are held to the two hardest manners.
        for (threads, block_size, manners) in [(1, 32, &manners[4..6]), (2, 16, &manners[..]), (3, 16, &manners[4..6])] {
            if kind == KernelKind::Portable && threads != 1 {
                continue;
            }
            let mut model = load(file, threads, kind, block_size, kv_type);
            for (count, manner) in manners {
                // The last ones, so that the long prompts are among them.
                let first = prompts.len() - count;
                let found = generate(&mut model, &prompts[first..], STEPS, manner);
                let what = format!("{name}, {kind}, {threads} threads, {count} sequences, {manner:?}");
                for (index, (found, expected)) in found.iter().zip(&alone[first..]).enumerate() {
                    assert!(found == expected, "{what}: sequence {index} differs");
                }
            }
        }
    }
}

fn check_tiny(name: &str, types: &[GgmlType], output: Option<GgmlType>) {
    check(name, &GgufFile::from_vec(name, Tiny::new(types, output).writer().bytes()).unwrap(), KvType::F16);
}

/// Every number of sequences with every chunk, on one thread and on two, preempted or not, always in shuffled order.
#[test]
fn every_manner_with_every_other() {
    // A model as small as can be: there are eighty ways to compute everything.
    let shape = Tiny { layers: 1, vocab: 37, ..Tiny::new(&[GgmlType::Q4_1, GgmlType::F16], None) };
    let file = GgufFile::from_vec("smallest", shape.writer().bytes()).unwrap();
    for kv_type in KvType::ALL {
        every_manner(&file, kv_type);
    }
}

fn every_manner(file: &GgufFile, kv_type: KvType) {
    let kind = support::families().next().unwrap();
    let mut reference = load(file, 1, KernelKind::Portable, 16, kv_type);
    let prompts = prompts(reference.vocab());
    let steps = 3;
    let alone = |prompt: &Vec<u32>| generate(&mut reference, std::slice::from_ref(prompt), steps, &Manner::default()).remove(0);
    let alone: Vec<_> = prompts.iter().map(alone).collect();
    for threads in [1, 2] {
        let mut model = load(file, threads, kind, 16, kv_type);
        for count in [1, 2, 5, 16] {
            for chunk in [1, 7, 64, usize::MAX] {
                for preempt_at in [None, Some(2)] {
                    let manner = Manner { chunk, shuffled: true, preempt_at, seed: 11, ..Manner::default() };
                    let first = prompts.len() - count;
                    let found = generate(&mut model, &prompts[first..], steps, &manner);
                    assert!(found == alone[first..], "{kind}, {kv_type}, {threads} threads, {count} sequences, {manner:?}");
                }
            }
        }
    }
}

#[test]
fn a_fork_goes_on_in_a_copied_block() {
    for (kind, kv_type) in support::families().flat_map(|kind| KvType::ALL.map(|kv_type| (kind, kv_type))) {
        for threads in [1, 2] {
            let mut model = load(&support::nano(), threads, kind, 16, kv_type);
            support::forks::check(&format!("{kind}, {threads} threads, {kv_type}"), &mut model, true);
        }
    }
}

#[test]
fn nano() {
    check("nano", &support::nano(), KvType::F16);
}

#[test]
fn nano_with_keys_and_values_of_32_bits() {
    check("nano, f32", &support::nano(), KvType::F32);
}

#[test]
fn nano_with_keys_and_values_of_8_bits() {
    check("nano, q8_0", &support::nano(), KvType::Q8_0);
}

#[test]
fn q4_0_and_q4_1() {
    check_tiny("Q4_0 and Q4_1", &[GgmlType::Q4_1, GgmlType::Q4_0], None);
}

#[test]
fn q4_k_and_q6_k() {
    check_tiny("Q4_K and Q6_K", &[GgmlType::Q4_K, GgmlType::Q4_K, GgmlType::Q6_K], Some(GgmlType::Q6_K));
}

#[test]
fn q2_k_q3_k_and_q5_k() {
    check_tiny("Q2_K, Q3_K and Q5_K", &[GgmlType::Q2_K, GgmlType::Q3_K, GgmlType::Q5_K], Some(GgmlType::Q5_K));
}

#[test]
fn q5_0_and_q5_1() {
    check_tiny("Q5_0 and Q5_1", &[GgmlType::Q5_0, GgmlType::Q5_1], None);
}

#[test]
fn floats() {
    check_tiny("floats", &[GgmlType::F32, GgmlType::F16, GgmlType::BF16], None);
}

#[test]
fn floats_and_codes_mixed() {
    check_tiny("mixed", &[GgmlType::Q8_0, GgmlType::F16, GgmlType::Q4_1], Some(GgmlType::Q8_0));
}
