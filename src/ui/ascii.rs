//! The screen without signs beyond ASCII: lines, blocks, dots and arrows get the nearest ASCII character, letters of names
//! and texts stay what they are.

use ratatui::buffer::Buffer;

/// Puts ASCII in place of every sign of one column that is no letter.
pub fn plain(buf: &mut Buffer) {
    for cell in &mut buf.content {
        let mut chars = cell.symbol().chars();
        if let (Some(ch), None) = (chars.next(), chars.next())
            && !ch.is_ascii()
            && let Some(sign) = sign(ch)
        {
            cell.set_char(sign);
        }
    }
}

/// None: a letter, or something that is not ours.
fn sign(ch: char) -> Option<char> {
    Some(match ch {
        '─' | '━' | '╌' | '┄' | '–' | '—' | '▔' | '‒' => '-',
        '÷' => '/',
        '│' | '┃' | '‖' | '╎' | '┆' | '╵' | '╷' | '▏' | '▎' | '▕' | '▌' | '▐' => '|',
        '╭' | '╮' | '╰' | '╯' | '┌' | '┐' | '└' | '┘' | '├' | '┤' | '┬' | '┴' | '┼' | '╞' | '╡' | '╪' => {
            '+'
        }
        '═' => '=',
        '█' | '■' | '▇' | '▆' => '#',
        // A prompt: the more of it, the darker; a decode is no shade.
        '▓' => '%',
        '▒' | '▅' | '▄' | '▃' => '=',
        '░' => ':',
        '▂' => '-',
        '▁' => '_',
        '·' | '•' | '∙' | '⋅' => '.',
        '×' | '✗' | '✕' => 'x',
        // An end is no arrow.
        '✓' | '✔' => 'E',
        '▶' | '▸' | '›' | '»' | '→' | '▷' | '❯' => '>',
        '◂' | '◀' | '‹' | '«' | '←' | '≤' => '<',
        '↑' | '▲' | '△' => '^',
        '↓' | '▼' | '▽' | '▾' => 'v',
        '●' | '◆' | '◉' => '*',
        '○' | '◐' | '◑' | '◌' | '◯' | '□' | '▪' | '▫' => 'o',
        // Before a bot's name.
        '◇' => '@',
        '…' => '~',
        '“' | '”' => '"',
        '‘' | '’' => '\'',
        'µ' => 'u',
        '↵' | '⏎' | '↩' => '/',
        '∅' => '0',
        '↻' | '⟳' | '⚙' | '⏸' | '⏵' | '❚' | '§' => '*',
        // Braille: by how many dots are set.
        '\u{2800}'..='\u{28ff}' => [' ', '.', '.', ':', ':', '|', '|', '#', '#'][(ch as u32 & 0xff).count_ones() as usize],
        // Other lines, blocks, shapes, arrows and dingbats.
        '\u{2190}'..='\u{21ff}' | '\u{2500}'..='\u{25ff}' | '\u{2700}'..='\u{27bf}' => '+',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn signs_go_and_letters_stay() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 24, 1));
        buf.set_string(0, 0, "╭─╮ bình 測試 ⣿⠁ ✓ ▓ …", Style::new());
        plain(&mut buf);
        let text: String = buf.content.iter().map(|cell| cell.symbol()).collect();
        assert!(text.starts_with("+-+ bình 測 試  #. E % ~"), "{text:?}");
    }

    /// What means another thing looks otherwise: the signs of the batch, of the blocks, and of scrolling.
    #[test]
    fn signs_of_the_legend_stay_apart() {
        let signs = crate::ui::view::signs().chain(['↓', '↑']);
        let plain: Vec<char> = signs.map(|ch| if ch.is_ascii() { ch } else { sign(ch).unwrap() }).collect();
        for (at, one) in plain.iter().enumerate() {
            assert!(!plain[..at].contains(one), "{one} means two things: {plain:?}");
        }
    }
}
