//! The README's picture: runs the real program in a pseudo-terminal, lets four people ask, and writes the screen
//! as SVG to standard output.
//!
//! cargo build --release && cargo run --release --example screenshot > docs/images/room.svg

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use unicode_width::UnicodeWidthStr;

const ROWS: u16 = 36;
const COLUMNS: u16 = 120;
/// Size of a cell in the picture.
const CELL: (f32, f32) = (8.4, 17.0);

const PROMPTS: [&str; 4] = [
    "Tell me a story about a cat and a bird.",
    "Tell me a story about a robot who waits for the rain.",
    "Describe a small boat in three sentences.",
    "Tell me a story about a lost key at the beach. Who finds it, and what does it open? Is it the door of the old \
     lighthouse on the hill, the box under the bed, or the gate of the king's garden by the river?",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::current_exe()?.with_file_name("../batchroom");
    let size = PtySize { rows: ROWS, cols: COLUMNS, pixel_width: 0, pixel_height: 0 };
    let pty = native_pty_system().openpty(size)?;
    let mut command = CommandBuilder::new(program);
    command.args(["--model", "nano", "--seed", "5", "--kv-memory", "550KiB", "--prefill-chunk", "16"]);
    // As on a machine that has never fetched anything.
    command.env("XDG_CACHE_HOME", std::env::temp_dir().join("batchroom-screenshot"));
    command.args(["--lang", "en", "--bots", "2", "--new", "--data"]);
    let kept = std::env::temp_dir().join(format!("batchroom-screenshot-{}", std::process::id()));
    std::fs::create_dir_all(&kept)?;
    command.arg(&kept);
    command.env("TERM", "xterm-256color");
    let mut child = pty.slave.spawn_command(command)?;
    let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
    let mut output = pty.master.try_clone_reader()?;
    let reading = screen.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            reading.lock().unwrap().process(&buffer[..count]);
        }
    });
    let mut keys = pty.master.take_writer()?;
    wait(&screen, "Enter")?;
    for prompt in PROMPTS {
        for key in [prompt, "\r", "\t"] {
            keys.write_all(key.as_bytes())?;
            std::thread::sleep(Duration::from_millis(150));
        }
    }
    std::thread::sleep(Duration::from_millis(4500));
    print!("{}", svg(screen.lock().unwrap().screen()));
    child.kill()?;
    std::fs::remove_dir_all(kept)?;
    Ok(())
}

fn wait(screen: &Mutex<vt100::Parser>, text: &str) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if screen.lock().unwrap().screen().contents().contains(text) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("{text:?} did not come"))
}

fn color(color: vt100::Color, default: &str) -> String {
    const ANSI: [&str; 16] = [
        "#000000", "#cd3131", "#0dbc79", "#e5e510", "#3b78ff", "#bc3fbc", "#11a8cd", "#cccccc", "#767676", "#f14c4c", "#23d18b",
        "#f5f543", "#3b8eea", "#d670d6", "#29b8db", "#ffffff",
    ];
    match color {
        vt100::Color::Default => default.to_owned(),
        vt100::Color::Idx(index @ 0..=15) => ANSI[usize::from(index)].to_owned(),
        vt100::Color::Idx(index @ 16..=231) => {
            let part = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
            let index = index - 16;
            format!("#{:02x}{:02x}{:02x}", part(index / 36), part(index / 6 % 6), part(index % 6))
        }
        vt100::Color::Idx(index) => {
            let grey = 8 + 10 * (index - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
        vt100::Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
    }
}

fn svg(screen: &vt100::Screen) -> String {
    let (width, height) = (f32::from(COLUMNS) * CELL.0 + 16.0, f32::from(ROWS) * CELL.1 + 16.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\" xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#101014\"/>\n"
    );
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            let Some(cell) = screen.cell(row, column) else { continue };
            let (x, y) = (8.0 + f32::from(column) * CELL.0, 8.0 + f32::from(row) * CELL.1);
            let (mut front, mut back) = (color(cell.fgcolor(), "#d0d0d0"), color(cell.bgcolor(), "#101014"));
            if cell.inverse() {
                std::mem::swap(&mut front, &mut back);
            }
            let text = cell.contents();
            let wide = text.width().max(1) as f32;
            if back != "#101014" {
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" fill=\"{back}\"/>",
                    wide * CELL.0,
                    CELL.1
                );
            }
            if !text.trim().is_empty() {
                let weight = if cell.bold() { " font-weight=\"bold\"" } else { "" };
                let text = text.replace('&', "&amp;").replace('<', "&lt;");
                // Every cell at its own place: no font's idea of a width can shift the columns.
                let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{front}\"{weight}>{text}</text>", y + 13.0);
            }
        }
    }
    out.push_str("</svg>\n");
    out
}
