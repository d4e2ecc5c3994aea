//! Shapes of published models, known by name: enough to say what they cost before anything is fetched.
//!
//! Sizes are those of each model's `config.json`; a test holds them against the published numbers of parameters.

use super::llama::LlamaConfig;

/// The shape of a published model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub name: &'static str,
    pub layers: usize,
    /// Width of the residual stream (`hidden_size`).
    pub embedding: usize,
    /// `intermediate_size`.
    pub feed_forward: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub vocab: usize,
    /// Whether the output matrix is the embeddings again (`tie_word_embeddings`).
    pub tied: bool,
    /// Whether queries, keys and values have biases, as those of Qwen2.5 have.
    pub qkv_biases: bool,
    /// `rope_theta`.
    pub rope_base: f32,
    pub rms_eps: f32,
    /// `max_position_embeddings`.
    pub context: usize,
}

/// What the members of a family have in common, for the table below.
const LLAMA_3: Shape = Shape {
    name: "",
    layers: 32,
    embedding: 4096,
    feed_forward: 14_336,
    heads: 32,
    kv_heads: 8,
    head_dim: 128,
    vocab: 128_256,
    tied: false,
    qkv_biases: false,
    rope_base: 500_000.0,
    rms_eps: 1e-5,
    context: 131_072,
};
const QWEN_2_5: Shape =
    Shape { head_dim: 128, vocab: 152_064, qkv_biases: true, rope_base: 1_000_000.0, rms_eps: 1e-6, context: 32_768, ..LLAMA_3 };
const SMOLLM_2: Shape =
    Shape { head_dim: 64, vocab: 49_152, tied: true, rope_base: 100_000.0, rms_eps: 1e-5, context: 8192, ..LLAMA_3 };

/// Layers, embedding, feed-forward, heads, KV heads.
const fn sized(name: &'static str, family: Shape, sizes: [usize; 5]) -> Shape {
    let [layers, embedding, feed_forward, heads, kv_heads] = sizes;
    Shape { name, layers, embedding, feed_forward, heads, kv_heads, ..family }
}

/// Every known shape, small ones first within a family.
pub const SHAPES: [Shape; 18] = [
    sized("smollm2-135m", SMOLLM_2, [30, 576, 1536, 9, 3]),
    sized("smollm2-360m", SMOLLM_2, [32, 960, 2560, 15, 5]),
    Shape { rope_base: 130_000.0, ..sized("smollm2-1.7b", SMOLLM_2, [24, 2048, 8192, 32, 32]) },
    Shape { head_dim: 64, vocab: 151_936, tied: true, ..sized("qwen2.5-0.5b", QWEN_2_5, [24, 896, 4864, 14, 2]) },
    Shape { vocab: 151_936, tied: true, ..sized("qwen2.5-1.5b", QWEN_2_5, [28, 1536, 8960, 12, 2]) },
    Shape { vocab: 151_936, tied: true, ..sized("qwen2.5-3b", QWEN_2_5, [36, 2048, 11_008, 16, 2]) },
    sized("qwen2.5-7b", QWEN_2_5, [28, 3584, 18_944, 28, 4]),
    sized("qwen2.5-14b", QWEN_2_5, [48, 5120, 13_824, 40, 8]),
    sized("qwen2.5-32b", QWEN_2_5, [64, 5120, 27_648, 40, 8]),
    sized("qwen2.5-72b", QWEN_2_5, [80, 8192, 29_568, 64, 8]),
    Shape { head_dim: 64, tied: true, ..sized("llama-3.2-1b", LLAMA_3, [16, 2048, 8192, 32, 8]) },
    Shape { tied: true, ..sized("llama-3.2-3b", LLAMA_3, [28, 3072, 8192, 24, 8]) },
    Shape { context: 8192, ..sized("llama-3-8b", LLAMA_3, [32, 4096, 14_336, 32, 8]) },
    sized("llama-3.1-8b", LLAMA_3, [32, 4096, 14_336, 32, 8]),
    sized("llama-3.1-70b", LLAMA_3, [80, 8192, 28_672, 64, 8]),
    Shape { vocab: 32_000, rope_base: 10_000.0, context: 4096, ..sized("llama-2-7b", LLAMA_3, [32, 4096, 11_008, 32, 32]) },
    Shape {
        head_dim: 64,
        vocab: 32_000,
        rope_base: 10_000.0,
        context: 2048,
        ..sized("tinyllama-1.1b", LLAMA_3, [22, 2048, 5632, 32, 4])
    },
    Shape { vocab: 32_768, rope_base: 1_000_000.0, context: 32_768, ..sized("mistral-7b", LLAMA_3, [32, 4096, 14_336, 32, 8]) },
];

/// A name that no shape has.
#[derive(Debug, thiserror::Error)]
#[error("there is no shape called `{0}`: the shapes are {list}", list = names())]
pub struct UnknownShape(pub String);

fn names() -> String {
    SHAPES.map(|shape| shape.name).join(", ")
}

impl Shape {
    /// The shape of this name, in whatever case it is written.
    ///
    /// # Errors
    /// When there is none; the message lists the names.
    pub fn by_name(name: &str) -> Result<&'static Shape, UnknownShape> {
        static ALL: [Shape; SHAPES.len()] = SHAPES;
        ALL.iter().find(|shape| shape.name.eq_ignore_ascii_case(name)).ok_or_else(|| UnknownShape(name.to_owned()))
    }

    /// As a Llama's metadata would say it.
    pub fn config(&self) -> LlamaConfig {
        LlamaConfig {
            name: Some(self.name.to_owned()),
            layers: self.layers,
            embedding: self.embedding,
            feed_forward: self.feed_forward,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            rope_dim: self.head_dim,
            rope_base: self.rope_base,
            rope_divisor: 1.0,
            rms_eps: self.rms_eps,
            context: self.context,
            vocab: self.vocab,
        }
    }

    /// Inputs and outputs of one layer's matrices: query, key, value, attention's output, gate, up, down.
    pub fn layer_matrices(&self) -> [(usize, usize); 7] {
        let (embedding, feed_forward) = (self.embedding, self.feed_forward);
        let (heads, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        [
            (embedding, heads),
            (embedding, kv),
            (embedding, kv),
            (heads, embedding),
            (embedding, feed_forward),
            (embedding, feed_forward),
            (feed_forward, embedding),
        ]
    }

    /// Inputs and outputs of all matrices: the embeddings, those of each layer, the output matrix unless it is the
    /// embeddings again.
    pub fn matrices(&self) -> impl Iterator<Item = (usize, usize)> {
        let ends = (self.embedding, self.vocab);
        let layers = std::iter::repeat_n(self.layer_matrices(), self.layers).flatten();
        std::iter::once(ends).chain(layers).chain((!self.tied).then_some(ends))
    }

    /// Number of parameters, biases included.
    pub fn parameters(&self) -> u64 {
        let matrices: u64 = self.matrices().map(|(k, rows)| k as u64 * rows as u64).sum();
        let norms = (2 * self.layers + 1) * self.embedding;
        let biases = if self.qkv_biases { self.layers * (self.heads + 2 * self.kv_heads) * self.head_dim } else { 0 };
        matrices + (norms + biases) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_the_published_ones() {
        // As the models' pages on the hub give them.
        let published = [
            ("smollm2-135m", 134_515_008),
            ("smollm2-360m", 361_821_120),
            ("smollm2-1.7b", 1_711_376_384),
            ("qwen2.5-0.5b", 494_032_768),
            ("qwen2.5-1.5b", 1_543_714_304),
            ("qwen2.5-3b", 3_085_938_688),
            ("qwen2.5-7b", 7_615_616_512),
            ("qwen2.5-14b", 14_770_033_664),
            ("qwen2.5-32b", 32_763_876_352),
            ("qwen2.5-72b", 72_706_203_648),
            ("llama-3.2-1b", 1_235_814_400),
            ("llama-3.2-3b", 3_212_749_824),
            ("llama-3-8b", 8_030_261_248),
            ("llama-3.1-8b", 8_030_261_248),
            ("llama-3.1-70b", 70_553_706_496),
            ("llama-2-7b", 6_738_415_616),
            ("tinyllama-1.1b", 1_100_048_384),
            ("mistral-7b", 7_248_023_552),
        ];
        assert_eq!(published.map(|(name, _)| name), SHAPES.map(|shape| shape.name));
        for (name, parameters) in published {
            assert_eq!(Shape::by_name(name).unwrap().parameters(), parameters, "{name}");
        }
    }

    #[test]
    fn a_name_is_found_in_any_case_and_a_wrong_one_lists_all() {
        assert_eq!(Shape::by_name("Qwen2.5-7B").unwrap().kv_heads, 4);
        let message = Shape::by_name("gpt-5").unwrap_err().to_string();
        assert!(message.contains("`gpt-5`") && SHAPES.iter().all(|shape| message.contains(shape.name)), "{message}");
    }
}
