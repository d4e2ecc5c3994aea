//! Files that are damaged, cut, lying or not models at all: an error with the file's name in it, and nothing worse.

#[path = "../support/mod.rs"]
mod support;

use batchroom::batch::{Batch, BlockCopy, BlockId, RequestId, Row, RowKind, UserId};
use batchroom::model::{GgmlType, GgufError, GgufFile, KvType, Llama, ModelError, ModelOptions};
use support::gguf_writer::{GgufWriter, string};
use support::random::Random;
use support::sequences::whole;
use support::tiny::Tiny;

const OPTIONS: ModelOptions = ModelOptions { threads: 1, kernels: None, block_size: 16, num_blocks: 4, kv_type: KvType::F16 };

fn small() -> Tiny {
    let types = [GgmlType::Q8_0, GgmlType::Q4_1];
    Tiny { layers: 1, embedding: 32, heads: 2, kv_heads: 1, feed_forward: 32, vocab: 20, ..Tiny::new(&types, None) }
}

fn parse(bytes: Vec<u8>) -> Result<GgufFile, GgufError> {
    GgufFile::from_vec("the-file", bytes)
}

fn load(bytes: Vec<u8>) -> Result<Llama, ModelError> {
    Llama::load(&parse(bytes)?, OPTIONS)
}

/// The message of an error, which must name the file.
fn message(bytes: Vec<u8>) -> String {
    let text = load(bytes).map(|_| ()).expect_err("an error").to_string();
    assert!(text.contains("the-file"), "no file in: {text}");
    text
}

fn refused(bytes: Vec<u8>, words: &str) {
    let text = message(bytes);
    assert!(text.contains(words), "\"{words}\" is not in: {text}");
}

#[test]
fn the_small_file_is_good() {
    load(small().writer().bytes()).unwrap();
}

#[test]
fn cut_anywhere() {
    let whole = small().writer().bytes();
    let header = whole.len().min(4000);
    let offsets = (0..header).chain((header..whole.len()).step_by(61)).chain([whole.len() - 1]);
    let mut count = 0;
    for end in offsets {
        message(whole[..end].to_vec());
        count += 1;
    }
    assert!(count > 300);
    for end in 0..300 {
        message(support::NANO[..end].to_vec());
    }
}

#[test]
fn not_a_model() {
    refused(Vec::new(), "not a GGUF file");
    refused(b"GG".to_vec(), "not a GGUF file");
    refused(b"Once upon a time there was a text file.".to_vec(), "begins with \"Once\"");
    refused([&b"GGML"[..], &[3, 0, 0, 0], &[0; 64]].concat(), "not a GGUF file");
    for version in [0, 1, 4, 99] {
        refused(GgufWriter { version, ..small().writer() }.bytes(), &format!("version {version}"));
    }
    refused(GgufWriter { version: 3u32.swap_bytes(), ..small().writer() }.bytes(), "big-endian");
    load(GgufWriter { version: 2, ..small().writer() }.bytes()).unwrap();
}

#[test]
fn paths_that_are_no_files() {
    let folder = std::env::temp_dir();
    let error = GgufFile::open(&folder).unwrap_err();
    assert!(matches!(error, GgufError::NotAFile { .. }), "{error}");
    assert!(error.to_string().contains(&folder.display().to_string()));
    let error = GgufFile::open(&folder.join("no-such-model-at-all.gguf")).unwrap_err();
    assert!(matches!(error, GgufError::Io { .. }) && error.to_string().contains("no-such-model-at-all.gguf"), "{error}");
    let empty = folder.join(format!("empty-{}.gguf", std::process::id()));
    std::fs::write(&empty, b"").unwrap();
    let error = GgufFile::open(&empty).unwrap_err();
    std::fs::remove_file(&empty).unwrap();
    assert!(matches!(error, GgufError::NotGguf { .. }), "{error}");
}

/// A header with these counts and nothing after it but `rest`.
fn header(tensors: u64, pairs: u64, rest: &[u8]) -> Vec<u8> {
    [&b"GGUF"[..], &3u32.to_le_bytes(), &tensors.to_le_bytes(), &pairs.to_le_bytes(), rest].concat()
}

#[test]
fn counts_that_lie() {
    for count in [1, 1000, u64::from(u32::MAX), 1 << 62, u64::MAX] {
        refused(header(count, 0, &[]), "cut short");
        refused(header(0, count, &[]), "cut short");
        // A key, a string value, an array of bytes, of strings, of arrays: each so long.
        refused(header(0, 1, &[&count.to_le_bytes()[..], &[b'k'; 20]].concat()[..27]), "");
        for element in [0u32, 8, 9, 12] {
            let mut array = [string("key"), 9u32.to_le_bytes().to_vec(), element.to_le_bytes().to_vec()].concat();
            array.extend(count.max(2).to_le_bytes());
            refused(header(0, 1, &array), "");
        }
        let mut text = [string("key"), 8u32.to_le_bytes().to_vec()].concat();
        text.extend(count.to_le_bytes());
        refused(header(0, 1, &text), "");
    }
}

#[test]
fn metadata_that_is_wrong() {
    let mut file = small().writer();
    refused(file.clone().raw("odd", 77, &[0; 8]).bytes(), "unknown type 77");
    refused(file.clone().u32("llama.block_count", 1).bytes(), "twice");
    refused(file.clone().u32("general.alignment", 24).bytes(), "general.alignment");
    refused(file.clone().u32("general.alignment", 0).bytes(), "general.alignment");
    refused(file.clone().str("general.alignment", "32").bytes(), "general.alignment");
    let mut deep = 9u32.to_le_bytes().to_vec();
    for _ in 0..50 {
        deep.extend(1u64.to_le_bytes());
        deep.extend(9u32.to_le_bytes());
    }
    refused(file.clone().raw("deep", 9, &[&deep[..], &[0; 8]].concat()).bytes(), "deep");
    // Getters give None, the value, or an error that says what is there.
    file.strings("words", &["a", "b"]).bool("yes", true).f32("half", 0.5).raw("minus", 5, &(-3i32).to_le_bytes());
    file.raw("bytes", 8, &[&2u64.to_le_bytes()[..], &[0xff, 0xfe]].concat());
    let file = parse(file.bytes()).unwrap();
    let meta = file.metadata();
    assert_eq!(meta.get_str_array("words").unwrap().unwrap(), ["a", "b"]);
    assert_eq!((meta.get_bool("yes").unwrap(), meta.get_f32("half").unwrap()), (Some(true), Some(0.5)));
    assert_eq!((meta.get_u32("none").unwrap(), meta.get_str_array("none").unwrap()), (None, None));
    for error in [
        meta.get_u32("words").unwrap_err(),
        meta.get_u32("minus").unwrap_err(),
        meta.get_str("half").unwrap_err(),
        meta.get_str("bytes").unwrap_err(),
        meta.get_i32_array("words").unwrap_err(),
        meta.get_bool("half").unwrap_err(),
        meta.require_str("none").unwrap_err(),
    ] {
        assert!(error.to_string().starts_with("the-file: the metadata"), "{error}");
    }
}

#[test]
fn tensors_that_are_wrong() {
    let file = small().writer();
    let with = |name: &str, dims: &[u64], type_id: u32, offset: Option<u64>| {
        file.clone().raw_tensor(name, dims, type_id, vec![0; 64], offset).bytes()
    };
    refused(with("extra", &[16], 0, Some(7)), "no multiple of 32");
    refused(with("extra", &[16], 0, Some(u64::MAX - 31)), "extra");
    refused(with("extra", &[16], 0, Some(1 << 40)), "extra");
    refused(with("extra", &[1 << 40], 0, None), "extra");
    refused(with("extra", &[1 << 32, 1 << 32], 0, None), "impossible shape");
    refused(with("extra", &[u64::MAX, 2], 0, None), "impossible shape");
    refused(with("extra", &[0, 2], 0, None), "impossible shape");
    refused(with("extra", &[33], 8, None), "impossible shape");
    refused(with("extra", &[1; 5], 0, None), "5 dimensions");
    refused(with("extra", &[1; 70], 0, None), "70 dimensions");
    refused(with("extra", &[16], 999, None), "type 999");
    refused(with("extra", &[16], 4, None), "type 4");
    refused(with("output_norm.weight", &[16], 0, None), "twice");
    refused(with("", &[16], 0, None), "name of tensor");
    refused(with("blk.0.attn_q.bias", &[16], 0, None), "biases");
}

#[test]
fn every_missing_tensor_is_named() {
    let names: Vec<String> =
        parse(small().writer().bytes()).unwrap().tensors().iter().map(|tensor| tensor.name.clone()).collect();
    assert_eq!(names.len(), 11);
    for name in names {
        let error = load(small().writer().without(&name).bytes()).map(|_| ()).unwrap_err();
        let shown = error.to_string();
        // Without embeddings there is no vocabulary to check the rest against, but the name comes first all the same.
        assert!(shown.contains(&name) && shown.contains("missing"), "{name}: {shown}");
    }
}

#[test]
fn wrong_shapes_and_types_say_what_was_expected() {
    let replaced = |name: &str, dims: &[usize], ggml_type: GgmlType| {
        let size = dims.iter().product::<usize>() / ggml_type.block_elements() * ggml_type.block_bytes();
        small().writer().without(name).tensor(name, dims, ggml_type, vec![0; size]).bytes()
    };
    let shape = message(replaced("blk.0.attn_k.weight", &[32, 32], GgmlType::Q8_0));
    assert!(shape.contains("blk.0.attn_k.weight") && shape.contains("[32, 32]") && shape.contains("[32, 16]"), "{shape}");
    refused(replaced("output_norm.weight", &[32, 1], GgmlType::F32), "[32]");
    refused(replaced("output_norm.weight", &[32], GgmlType::Q8_0), "Q8_0");
    refused(replaced("blk.0.ffn_up.weight", &[32, 32], GgmlType::I8), "I8");
    refused(replaced("blk.0.ffn_up.weight", &[32, 32], GgmlType::I32), "I32");
    refused(replaced("token_embd.weight", &[64, 20], GgmlType::Q8_0), "token_embd.weight");
}

/// The small model's file with one of its integers set to something else.
fn with_size(key: &str, value: u32) -> Vec<u8> {
    let bytes = small().writer().bytes();
    let needle = string(key);
    let at = bytes.windows(needle.len()).position(|window| window == needle).expect("the key") + needle.len() + 4;
    let mut bytes = bytes;
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    bytes
}

#[test]
fn sizes_that_make_no_model() {
    for key in [
        "block_count",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "context_length",
    ] {
        for value in [0, 7, 1 << 20, u32::MAX] {
            let bytes = with_size(&format!("llama.{key}"), value);
            if (key, value) == ("context_length", 7) || (key, value) == ("context_length", 1 << 20) {
                load(bytes).unwrap();
            } else {
                message(bytes);
            }
        }
    }
    let mut other = GgufWriter::default();
    refused(other.bytes(), "general.architecture");
    refused(other.str("general.architecture", "mamba").bytes(), "\"mamba\" is not supported");
    refused(small().writer().str("llama.rope.scaling.type", "yarn").bytes(), "yarn");
    refused(small().writer().u32("llama.expert_count", 8).bytes(), "mixture of experts");
    refused(small().writer().u32("llama.rope.dimension_count", 15).bytes(), "rotat");
    refused(small().writer().u32("llama.rope.dimension_count", 18).bytes(), "rotat");
}

#[test]
fn flipped_bytes() {
    let good = small().writer().bytes();
    let header = good.len() - parse(good.clone()).unwrap().tensors().iter().map(|tensor| tensor.range.len()).sum::<usize>();
    let mut loaded = 0;
    for seed in 0..4000u64 {
        let mut random = Random(seed);
        let mut bytes = good.clone();
        for _ in 0..1 + random.below(3) {
            // Mostly where the structure is.
            let at = random.below(if seed % 8 == 0 { bytes.len() } else { header });
            bytes[at] = if random.below(2) == 0 { bytes[at] ^ (1 << random.below(8)) } else { random.bits() as u8 };
        }
        // Whatever it is now: no panic, no hang. What loads must also run.
        let run = std::panic::catch_unwind(|| {
            let Ok(mut model) = load(bytes) else { return 0 };
            let tokens = [1, 2, 3].map(|token| token % model.vocab() as u32);
            let batch = whole(&model, &tokens);
            let _ = model.forward(&batch);
            1
        });
        loaded += run.unwrap_or_else(|_| panic!("a panic with seed {seed}"));
    }
    assert!((100..3900).contains(&loaded), "{loaded} of 4000 loaded");
}

#[test]
fn batches_that_do_not_fit_are_errors_and_change_nothing() {
    let mut model = load(small().writer().bytes()).unwrap();
    let good = whole(&model, &[1, 2, 3]);
    let expected = model.forward(&good).unwrap().to_vec();
    let with = |change: &dyn Fn(&mut Batch)| {
        let mut batch = good.clone();
        change(&mut batch);
        batch
    };
    let row = |start: usize, tokens: std::ops::Range<usize>, blocks: std::ops::Range<usize>| Row {
        id: RequestId(9),
        user: UserId(9),
        start,
        tokens,
        blocks,
        kind: RowKind::Decode,
        samples: true,
    };
    let copy = |from, to| BlockCopy { from: BlockId(from), to: BlockId(to) };
    let wrong = [
        ("token 20", with(&|batch| batch.tokens[1] = 20)),
        ("4294967295", with(&|batch| batch.tokens[1] = u32::MAX)),
        ("block 4", with(&|batch| batch.blocks[0] = BlockId(4))),
        ("positions", with(&|batch| batch.rows[0].start = 510)),
        ("positions", with(&|batch| batch.rows[0].start = usize::MAX)),
        ("needs 2", with(&|batch| batch.rows[0].start = 14)),
        ("tokens", with(&|batch| batch.rows[0].tokens = 0..9)),
        ("tokens", with(&|batch| batch.rows[0].tokens = 1..1)),
        ("blocks", with(&|batch| batch.rows[0].blocks = 0..9)),
        ("like another", with(&|batch| batch.rows.push(row(0, 0..1, 0..1)))),
        ("block 0 is to be copied to 4, and there are 4", with(&|batch| batch.copies = vec![copy(1, 0), copy(0, 4)])),
        ("block 4294967295 is to be copied to 1", with(&|batch| batch.copies = vec![copy(u32::MAX, 1)])),
    ];
    for (words, batch) in wrong {
        let error = model.forward(&batch).unwrap_err().to_string();
        assert!(error.contains(words), "\"{words}\" is not in: {error}");
    }
    assert_eq!(model.forward(&Batch::default()).unwrap(), &[] as &[f32]);
    // The first copy of a list with a bad one has not been carried out either: the past is still in block 0.
    assert!(model.copy_blocks(&[copy(1, 0), copy(0, 4)]).is_err());
    let last = with(&|batch| batch.rows[0] = row(2, 2..3, 0..1));
    assert_eq!(model.forward(&last).unwrap(), expected);
    assert_eq!(model.forward(&good).unwrap(), expected);
}

#[test]
fn options_that_cannot_be() {
    let file = parse(small().writer().bytes()).unwrap();
    for block_size in [0, 1, 8, 24, 2048] {
        let error = Llama::load(&file, ModelOptions { block_size, ..OPTIONS }).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("multiple of 16"), "{error}");
    }
    for num_blocks in [usize::MAX, usize::MAX / 4096, 1 << 50] {
        let error = Llama::load(&file, ModelOptions { num_blocks, ..OPTIONS }).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("KV cache"), "{error}");
    }
}
