//! A sequence that another goes on from in the middle of a block.

use batchroom::batch::{Batch, BlockCopy, BlockId, RequestId, Row, RowKind, UserId};

use super::random::Random;
use super::sequences::Paged;

/// Positions that trunk and branch share: one block of 16, and a part of the next.
const SHARED: usize = 21;

/// Adds a row of one sequence to a batch.
fn put(batch: &mut Batch, sequence: usize, start: usize, tokens: &[u32], table: &[u32]) {
    let (first_token, first_block) = (batch.tokens.len(), batch.blocks.len());
    batch.tokens.extend(tokens);
    batch.blocks.extend(table.iter().map(|block| BlockId(*block)));
    batch.rows.push(Row {
        id: RequestId(sequence as u64),
        user: UserId(sequence as u32),
        start,
        tokens: first_token..batch.tokens.len(),
        blocks: first_block..batch.blocks.len(),
        kind: if tokens.len() == 1 { RowKind::Decode } else { RowKind::Prefill },
        samples: true,
    });
}

/// Bits of the logits of each row.
fn run(model: &mut impl Paged, batch: &Batch) -> Vec<Vec<u32>> {
    let vocab = model.vocab();
    let logits = model.run(batch).unwrap();
    assert_eq!(logits.len(), batch.num_sampled() * vocab);
    logits.chunks_exact(vocab).map(|logits| logits.iter().map(|value| value.to_bits()).collect()).collect()
}

/// The pieces that a sequence is computed in, alone, in these blocks. Returns the logits after each.
fn alone(model: &mut impl Paged, pieces: &[&[u32]], table: &[u32]) -> Vec<Vec<u32>> {
    let mut start = 0;
    let piece = |tokens: &&[u32]| {
        let mut batch = Batch::default();
        put(&mut batch, 0, start, tokens, table);
        start += tokens.len();
        run(model, &batch).remove(0)
    };
    pieces.iter().map(piece).collect()
}

/// Holds a branch, which goes on in a copy of a block that its trunk has written further, against the same sequence
/// alone, bit for bit. `together`: trunk and branch go on in one batch. The model has 9 blocks of 16 positions at least.
pub fn check(what: &str, model: &mut impl Paged, together: bool) {
    assert!(model.block_size() == 16 && model.num_blocks() >= 9, "{what}");
    let vocab = model.vocab();
    let mut random = Random(5);
    let mut draw = |count: usize| (0..count).map(|_| random.below(vocab) as u32).collect::<Vec<u32>>();
    let (shared, trunk, branch) = (draw(SHARED), draw(4), draw(14));
    // The branch's second piece begins in its copied block and reaches into the next one.
    let (trunk, branch) = (trunk.split_at(3), branch.split_at(1));
    let expected_trunk = alone(model, &[&shared, trunk.0, trunk.1], &[8, 7]);
    let expected = alone(model, &[&shared, branch.0, branch.1], &[0, 1, 2]);
    // What is in the copies' targets must not matter.
    alone(model, &[&draw(48)], &[4, 5, 6]);
    let found = alone(model, &[&shared, trunk.0], &[0, 1]);
    assert!(found == expected_trunk[..2], "{what}: trunk");

    let mut batch = Batch::default();
    put(&mut batch, 1, SHARED, branch.0, &[0, 4, 6]);
    assert!(run(model, &batch).remove(0) != expected[1], "{what}: without a copy the branch must differ");
    // From one copy to another, in order.
    batch.copies = [(1, 5), (5, 4)].map(|(from, to)| BlockCopy { from: BlockId(from), to: BlockId(to) }).to_vec();
    if together {
        put(&mut batch, 0, SHARED + trunk.0.len(), trunk.1, &[0, 1]);
    }
    let found = run(model, &batch);
    assert!(found[0] == expected[1], "{what}: branch, first piece");
    assert!(!together || found[1] == expected_trunk[2], "{what}: trunk beside its branch");
    batch.clear();
    put(&mut batch, 1, SHARED + branch.0.len(), branch.1, &[0, 4, 6]);
    assert!(run(model, &batch).remove(0) == expected[2], "{what}: branch, second piece");
    // The trunk has lost nothing.
    batch.clear();
    put(&mut batch, 0, SHARED + trunk.0.len(), trunk.1, &[0, 1]);
    assert!(run(model, &batch).remove(0) == expected_trunk[2], "{what}: trunk, after its branch");
}
