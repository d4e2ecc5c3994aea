//! The figures of `bench` for a person: plain lines that also go through pipes.

use std::fmt::Write;

use super::measure::Sweep;
use super::report::{Decode, Parts, Prefill, Report};
use crate::model::StepPart;
use crate::text::printable;
use crate::ui::format::count;

/// Columns of the longest bar.
const BAR: usize = 40;

/// What lines are drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Block characters and dashes beyond ASCII.
    pub unicode: bool,
}

impl Style {
    /// As the locale says: the first of LC_ALL, LC_CTYPE and LANG that is set.
    pub fn of_locale(variable: impl Fn(&str) -> Option<String>) -> Style {
        let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
        let locale = set.unwrap_or_default().to_ascii_lowercase();
        Style { unicode: locale.contains("utf-8") || locale.contains("utf8") }
    }

    /// What stands where a figure is not known.
    pub fn unknown(self) -> &'static str {
        if self.unicode { "–" } else { "-" }
    }

    /// A bar of a share (0 to 1) of the longest, to an eighth of a column where the characters allow it.
    pub fn bar(self, share: f64) -> String {
        let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
        if !self.unicode {
            return "#".repeat(eighths.div_ceil(8));
        }
        let rest = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8];
        let bar = "█".repeat(eighths / 8);
        if eighths.is_multiple_of(8) { bar } else { format!("{bar}{rest}") }
    }
}

/// Bytes in decimal units: `96.5 MB`, `15.2 GB`.
pub fn bytes(value: f64) -> String {
    match value {
        v if v < 1e6 => format!("{:.1} kB", v / 1e3),
        v if v < 1e9 => format!("{:.1} MB", v / 1e6),
        v => format!("{:.1} GB", v / 1e9),
    }
}

/// `134.5 M`, `7.62 G` (thousand million).
pub fn parameters(value: u64) -> String {
    let value = value as f64;
    if value < 1e9 { format!("{:.1} M", value / 1e6) } else { format!("{:.2} G", value / 1e9) }
}

/// With more decimals the smaller it is.
pub fn figure(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".into(),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
    }
}

fn milliseconds(value: f64) -> String {
    if value < 99.995 { format!("{value:.2}") } else { figure(value) }
}

/// What was measured on what, and the decode table's head.
pub fn head(report: &Report, sweep: &Sweep) -> String {
    let (model, device) = (&report.model, &report.device);
    let mut out = String::new();
    let name = line(&model.name);
    let weights = format!("{} parameters, {}", parameters(model.parameters), model.types);
    _ = writeln!(out, "model    {name}: {weights}, {} of weights read at each step", bytes(model.weight_bytes as f64));
    if let Some(file) = &model.file {
        _ = writeln!(out, "file     {}", line(file));
    }
    if let Some(sha256) = &model.sha256 {
        _ = writeln!(out, "sha256   {sha256}");
    }
    let threads = if device.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", device.threads) };
    _ = writeln!(out, "machine  {}, {threads}, {} kernels, keys and values in {}", device.cpu, device.kernels, report.kv_type);
    _ = writeln!(out, "memory   {:.1} GB/s read by these threads", report.memory_bandwidth_gb_per_s);
    let (first, last) = (sweep.prompt_tokens, sweep.prompt_tokens + sweep.new_tokens);
    _ = writeln!(out, "\ndecode, contexts from {first} to {last} tokens (the model alone: no sampling, scheduler or screen)");
    _ = write!(
        out,
        "{:>5} {:>7} {:>5} {:>8} {:>8} {:>9} {:>8} {:>8} {:>8} {:>6} {:>6}",
        "users", "context", "steps", "step ms", "p95 ms", "tok/s", "each", "speed-up", "MB/token", "GB/s", "memory"
    );
    out
}

/// One row of the decode table.
pub fn decode_row(decode: &Decode, style: Style) -> String {
    let speedup = decode.speedup.map_or_else(|| style.unknown().to_owned(), |speedup| format!("{speedup:.2}"));
    format!(
        "{:>5} {:>7} {:>5} {:>8} {:>8} {:>9} {:>8} {:>8} {:>8} {:>6} {:>6}",
        decode.users,
        decode.context,
        decode.steps,
        milliseconds(decode.step_ms_median),
        milliseconds(decode.step_ms_p95),
        figure(decode.tokens_per_s),
        figure(decode.tokens_per_s_per_user),
        speedup,
        figure(decode.weight_bytes_per_token / 1e6),
        figure(decode.bandwidth_gb_per_s),
        format!("{:.0} %", decode.bandwidth_share * 100.0),
    )
}

/// What follows the decode table: its chart, the prefill table, and what has to be said.
pub fn tail(report: &Report, style: Style) -> String {
    let mut out = String::new();
    let most = report.decode.iter().map(|decode| decode.tokens_per_s).fold(0.0, f64::max);
    if !report.decode.is_empty() {
        _ = writeln!(out, "\ntok/s of all users together (of each)");
    }
    for decode in &report.decode {
        let bar = style.bar(decode.tokens_per_s / most);
        let (all, each) = (figure(decode.tokens_per_s), figure(decode.tokens_per_s_per_user));
        _ = writeln!(out, "{:>5} {bar} {all} ({each})", decode.users);
    }
    if !report.prefill.is_empty() {
        _ = writeln!(out, "\nprefill\n{:>5} {:>7} {:>9}", "users", "prompt", "tok/s");
    }
    for Prefill { users, prompt_tokens, tokens_per_s } in &report.prefill {
        _ = writeln!(out, "{users:>5} {prompt_tokens:>7} {:>9}", figure(*tokens_per_s));
    }
    if report.decode.iter().any(|decode| decode.bandwidth_share > 1.0) {
        _ = writeln!(out, "\nMore than 100 % of memory: the weights, or a part of them, stay in the CPU's caches.");
    }
    out
}

/// Where the time goes: the mean of each part of a step, and of all prompts together.
pub fn parts(report: &Report) -> String {
    let mut out = String::from("\nms in each part of a decode step (all layers), and of the prefill of all prompts\n");
    let head: Vec<String> = StepPart::ALL.iter().map(|part| format!("{:>9}", part.name())).collect();
    _ = writeln!(out, "{:>5} {:<7} {} {:>9}", "users", "", head.join(" "), "all");
    for Parts { users, prefill, times, passes } in &report.parts {
        let each = |time: std::time::Duration| milliseconds(time.as_secs_f64() * 1e3 / *passes as f64);
        let row: Vec<String> = StepPart::ALL.iter().map(|part| format!("{:>9}", each(times.of(*part)))).collect();
        let kind = if *prefill { "prefill" } else { "decode" };
        _ = writeln!(out, "{users:>5} {kind:<7} {} {:>9}", row.join(" "), each(times.total()));
    }
    out
}

/// Names come from files: on one line, and nothing that moves the cursor.
fn line(text: &str) -> String {
    printable(text).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    fn whole(report: &Report, style: Style) -> String {
        let sweep = Sweep::new(&[1], 128, 4).unwrap();
        let rows: Vec<String> = report.decode.iter().map(|decode| decode_row(decode, style)).collect();
        format!("{}\n{}\n{}", head(report, &sweep), rows.join("\n"), tail(report, style))
    }

    #[test]
    fn the_locale_says_which_characters_there_are() {
        let style = |set: &[(&str, &str)]| {
            Style::of_locale(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())).unicode
        };
        assert!(style(&[("LANG", "vi_VN.UTF-8")]) && style(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!style(&[]) && !style(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
    }

    #[test]
    fn rows_stand_below_their_heads() {
        let report = report(&[(1, &[2.0, 3.0, 2.0, 3.0]), (10, &[5.0, 5.0, 4.0, 6.0]), (1000, &[250.0])]);
        let text = whole(&report, Style { unicode: true });
        let head = text.lines().find(|line| line.starts_with("users context")).unwrap();
        let rows: Vec<&str> = text.lines().skip_while(|line| *line != head).skip(1).take(3).collect();
        assert_eq!(rows[0], "    1     128     4     2.00     3.00       400      400     1.00      100   40.0   80 %");
        assert!(rows.iter().all(|row| row.chars().count() == head.len()), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn bars_are_to_scale_and_ascii_when_they_must_be() {
        let report = report(&[(1, &[2.0]), (4, &[4.0])]);
        let text = whole(&report, Style { unicode: false });
        assert!(text.is_ascii(), "{text}");
        let bar = |line: &str| line.chars().filter(|c| *c == '#').count();
        let bars: Vec<usize> = text.lines().map(bar).filter(|len| *len > 0).collect();
        assert_eq!(bars, [BAR / 2, BAR]);
        assert_eq!(Style { unicode: true }.bar(1.0 / 320.0), "▏");
        assert_eq!(Style { unicode: true }.bar(0.5), "█".repeat(BAR / 2));
    }

    #[test]
    fn what_is_not_known_is_a_dash_and_caches_are_explained() {
        let text = whole(&report(&[(2, &[1.0])]), Style { unicode: true });
        assert!(text.contains(" – ") && text.contains("stay in the CPU's caches"), "{text}");
        assert!(!whole(&report(&[(2, &[10.0])]), Style { unicode: true }).contains("caches"));
    }
}
