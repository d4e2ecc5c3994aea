//! The block manager once more, slow and plain: lists are vectors, everything is searched for, and what a block holds is
//! known by all tokens up to its end.

use std::collections::HashMap;

use batchroom::batch::BlockId;
use batchroom::scheduler::{BlockCounts, BlockManager, BlockUse, ContentId};

use crate::model::Random;
use crate::shrink::failure;

/// The name of contents; 0 is what comes before the first token.
pub type Name = u64;

/// What a block is remembered for.
#[derive(Clone, Debug)]
struct Held {
    name: Name,
    parent: Name,
    /// Everything from the first token to the end of the block.
    prefix: Vec<u32>,
}

#[derive(Clone, Debug)]
pub struct Blocks {
    pub size: usize,
    pub references: Vec<u32>,
    pub free: Vec<u32>,
    pub cached: Vec<u32>,
    pub spare: Vec<u32>,
    held: Vec<Option<Held>>,
    names: u64,
    pub evicted: u64,
}

impl Blocks {
    pub fn new(capacity: usize, size: usize) -> Blocks {
        Blocks {
            size,
            references: vec![0; capacity],
            free: (0..capacity as u32).collect(),
            cached: Vec::new(),
            spare: Vec::new(),
            held: vec![None; capacity],
            names: 0,
            evicted: 0,
        }
    }

    pub fn used(&self) -> usize {
        self.references.iter().filter(|references| **references > 0).count()
    }

    pub fn available(&self) -> usize {
        self.free.len() + self.cached.len()
    }

    fn take(&mut self) -> u32 {
        if !self.free.is_empty() {
            return self.free.remove(0);
        }
        let block = self.cached.remove(0);
        self.held[block as usize] = None;
        self.evicted += 1;
        block
    }

    pub fn grow(&mut self, table: &mut Vec<u32>, tokens: usize) -> bool {
        let wanted = tokens.div_ceil(self.size).saturating_sub(table.len());
        if wanted > self.available() {
            return false;
        }
        for _ in 0..wanted {
            let block = self.take();
            self.references[block as usize] = 1;
            table.push(block);
        }
        true
    }

    pub fn share(&mut self, table: &mut Vec<u32>, blocks: &[u32]) {
        for block in blocks {
            self.cached.retain(|other| other != block);
            self.references[*block as usize] += 1;
            table.push(*block);
        }
    }

    pub fn release(&mut self, table: &mut Vec<u32>) {
        for block in std::mem::take(table).into_iter().rev() {
            self.references[block as usize] -= 1;
            if self.references[block as usize] == 0 {
                match self.held[block as usize] {
                    Some(_) => self.cached.push(block),
                    None => self.free.push(block),
                }
            }
        }
    }

    /// `prefix`: all tokens up to the end of the block.
    pub fn remember(&mut self, block: u32, parent: Name, prefix: &[u32]) -> Name {
        let same = |held: &&Held| held.parent == parent && held.prefix == prefix;
        if let Some(held) = self.held.iter().flatten().find(same) {
            return held.name;
        }
        self.names += 1;
        self.held[block as usize] = Some(Held { name: self.names, parent, prefix: prefix.to_vec() });
        self.names
    }

    /// Blocks that hold the beginning of `tokens`, and the name of the last; one token is left out.
    pub fn cached_prefix(&self, tokens: &[u32]) -> (Vec<u32>, Name) {
        let (mut found, mut parent) = (Vec::new(), 0);
        for end in (self.size..tokens.len()).step_by(self.size) {
            let fits =
                |held: &Option<Held>| held.as_ref().is_some_and(|held| held.parent == parent && held.prefix == tokens[..end]);
            let Some(block) = self.held.iter().position(fits) else { break };
            found.push(block as u32);
            parent = self.held[block].as_ref().expect("it was found").name;
        }
        (found, parent)
    }

    fn forget_all(&mut self) {
        self.held.fill(None);
        self.free.append(&mut self.cached);
    }

    pub fn set_total(&mut self, total: usize) {
        while self.used() + self.available() > total {
            let block = match self.free.pop() {
                Some(block) => block,
                None => self.take(),
            };
            self.spare.insert(0, block);
        }
        while self.used() + self.available() < total {
            let block = self.spare.remove(0);
            self.free.push(block);
        }
    }
}

/// One sequence's text and blocks, in both.
#[derive(Default)]
struct Text {
    tokens: Vec<u32>,
    real: Vec<BlockId>,
    plain: Vec<u32>,
    remembered: usize,
    content: Option<(ContentId, Name)>,
}

/// Both managers, and the texts in them.
struct Pair {
    real: BlockManager,
    plain: Blocks,
    texts: Vec<Text>,
    /// Names of contents in both: one for one.
    names: HashMap<Name, ContentId>,
}

fn ids(blocks: &[BlockId]) -> Vec<u32> {
    blocks.iter().map(|block| block.0).collect()
}

impl Pair {
    fn new(capacity: usize, size: usize) -> Pair {
        let (real, plain) = (BlockManager::new(capacity, size), Blocks::new(capacity, size));
        Pair { real, plain, texts: Vec::new(), names: HashMap::from([(0, ContentId::ROOT)]) }
    }

    fn look_up(&self, tokens: &[u32]) -> (Vec<BlockId>, ContentId, Name) {
        let mut found = Vec::new();
        let content = self.real.cached_prefix(tokens, &mut found);
        let (plain, name) = self.plain.cached_prefix(tokens);
        assert_eq!((ids(&found), content), (plain, self.names[&name]), "the same prefix is found");
        (found, content, name)
    }

    /// A new text in blocks of its own, behind what is cached of it or shared with another text.
    fn begin(&mut self, tokens: Vec<u32>, origin: Option<usize>) {
        let size = self.plain.size;
        let (mut found, content, name) = self.look_up(&tokens);
        let mut text = Text { remembered: found.len(), content: Some((content, name)), ..Text::default() };
        if let Some(origin) = origin {
            let origin = &self.texts[origin];
            let common = origin.tokens.iter().zip(&tokens[..tokens.len() - 1]).take_while(|(a, b)| a == b).count() / size;
            if common > found.len() {
                found.extend_from_slice(&origin.real[found.len()..common]);
            }
        }
        self.real.share(&mut text.real, &found);
        self.plain.share(&mut text.plain, &ids(&found));
        if self.grow(&mut text, &tokens) {
            self.texts.push(text);
        } else {
            self.real.release(&mut text.real);
            self.plain.release(&mut text.plain);
        }
    }

    /// More tokens for a text, and its full blocks remembered. False: there was no room, and nothing has changed.
    fn grow(&mut self, text: &mut Text, more: &[u32]) -> bool {
        let wanted = text.tokens.len() + more.len();
        let before = (self.real.counts(), ids(&text.real), self.real.evicted());
        let grown = self.real.grow(&mut text.real, wanted);
        assert_eq!(grown, self.plain.grow(&mut text.plain, wanted));
        if !grown {
            assert_eq!((self.real.counts(), ids(&text.real), self.real.evicted()), before, "nothing is lost by asking");
            return false;
        }
        text.tokens.extend_from_slice(more);
        true
    }

    fn remember(&mut self, at: usize) {
        let size = self.plain.size;
        let text = &mut self.texts[at];
        while (text.remembered + 1) * size <= text.tokens.len() {
            let (block, end) = (text.remembered, (text.remembered + 1) * size);
            let (content, name) = text.content.expect("it has begun");
            let content = self.real.remember(text.real[block], content, &text.tokens[end - size..end]);
            let name = self.plain.remember(text.plain[block], name, &text.tokens[..end]);
            assert_eq!(*self.names.entry(name).or_insert(content), content, "one name for one");
            text.content = Some((content, name));
            text.remembered += 1;
        }
    }

    fn act(&mut self, random: &mut Random) {
        let vocabulary = random.pick(&[2, 2, 3]);
        let count = random.range(1, 4 * self.plain.size + 3);
        let draw =
            |random: &mut Random, count: usize| (0..count).map(|_| random.next() as u32 % vocabulary).collect::<Vec<u32>>();
        let at = (!self.texts.is_empty()).then(|| random.range(0, self.texts.len() - 1));
        match (random.range(0, 19), at) {
            (0..6, _) => {
                let tokens = draw(random, count);
                self.begin(tokens, None);
            }
            (6..9, Some(at)) => {
                let mut tokens = self.texts[at].tokens.clone();
                tokens.truncate(random.range(0, tokens.len()));
                tokens.extend(draw(random, 1 + count / 4));
                let origin = random.chance(50).then_some(at);
                self.begin(tokens, origin);
            }
            (9..12, Some(at)) => {
                let more = draw(random, 1 + count / 4);
                let mut text = std::mem::take(&mut self.texts[at]);
                self.grow(&mut text, &more);
                self.texts[at] = text;
            }
            (12..15, Some(at)) => self.remember(at),
            (15..18, Some(at)) => {
                let mut text = self.texts.swap_remove(at);
                self.real.release(&mut text.real);
                self.plain.release(&mut text.plain);
            }
            (18, _) => {
                let total = random.range(self.plain.used().max(1), self.real.capacity());
                self.real.set_total(total);
                self.plain.set_total(total);
            }
            (19, _) if random.chance(20) => {
                self.real.forget_all();
                self.plain.forget_all();
                for text in &mut self.texts {
                    (text.remembered, text.content) = (0, Some((ContentId::ROOT, 0)));
                }
            }
            _ => {
                let tokens = draw(random, count);
                self.look_up(&tokens);
            }
        }
        self.compare();
    }

    fn compare(&self) {
        let (real, plain) = (&self.real, &self.plain);
        let counts = BlockCounts { used: plain.used(), cached: plain.cached.len(), free: plain.free.len() };
        assert_eq!((real.counts(), real.evicted()), (counts, plain.evicted));
        assert_eq!(real.total(), counts.used + counts.cached + counts.free);
        assert!(
            real.next_blocks().map(|block| block.0).eq(plain.free.iter().chain(&plain.cached).copied()),
            "order of what is next"
        );
        for (block, found) in real.uses().into_iter().enumerate() {
            let block = block as u32;
            let expected = match plain.references[block as usize] {
                0 if plain.free.contains(&block) => BlockUse::Free,
                0 if plain.cached.contains(&block) => BlockUse::Cached,
                0 => BlockUse::Spare,
                references => BlockUse::Used(references),
            };
            assert_eq!((found, real.references(BlockId(block))), (expected, plain.references[block as usize]), "block {block}");
        }
        for text in &self.texts {
            assert_eq!(ids(&text.real), text.plain);
        }
    }
}

#[test]
fn blocks_are_those_of_a_plain_manager() {
    let (mut evicted, mut shared) = (0, 0);
    for seed in 0..1500 {
        let mut random = Random(seed);
        let mut pair = Pair::new(random.range(1, 24), random.pick(&[1, 2, 3, 4]));
        let mut done = 0;
        let outcome = failure(|| {
            for _ in 0..200 {
                done += 1;
                pair.act(&mut random);
            }
        });
        assert!(outcome.is_none(), "seed {seed}, operation {done}: {outcome:?}");
        evicted += pair.plain.evicted;
        shared += pair.plain.references.iter().filter(|references| **references > 1).count();
    }
    println!("{evicted} evictions, {shared} blocks shared at the end");
    assert!(evicted > 1000 && shared > 100, "the operations reach the hard cases: {evicted}, {shared}");
}
