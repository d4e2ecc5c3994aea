//! Choosing a message of a pane, and what can be done with it.

/// A message chosen among those on screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Which, from the top of the path.
    pub turn: usize,
    /// Deleting it was asked for once: so many messages would go.
    pub sure: Option<usize>,
    /// Blocks of code that were copied, from the last one up.
    pub block: usize,
}

/// What can be done with the chosen one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickAct {
    Up,
    Down,
    Before,
    After,
    Edit,
    Regenerate,
    Continue,
    Beside,
    Copy,
    CopyBlock,
    Delete,
    Leave,
}

/// The blocks of code in a text, without their fences, in order.
pub fn code_blocks(text: &str) -> Vec<String> {
    use super::rich::blocks::{Splitter, What};
    let mut closed = Vec::new();
    Splitter::new(false).finish(text, &mut closed);
    let mut blocks: Vec<String> = Vec::new();
    let mut indent = 0;
    for block in closed {
        let line = &text[block.start..block.end];
        match block.what {
            What::CodeBegin(_) => {
                indent = line.len() - line.trim_start_matches(' ').len();
                blocks.push(String::new());
            }
            What::Code => {
                if let Some(last) = blocks.last_mut() {
                    let spaces = line.bytes().take(indent).take_while(|byte| *byte == b' ').count();
                    last.push_str(&line[spaces..]);
                }
            }
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_without_fences_and_indent() {
        let text = "a\n```rust\nlet x;\n\n  y\n```\n- b\n  ~~~\n  z\n  ~~~\n```\nnot ended";
        assert_eq!(code_blocks(text), ["let x;\n\n  y\n", "z\n", "not ended"]);
        assert!(code_blocks("none `at` all").is_empty());
    }
}
