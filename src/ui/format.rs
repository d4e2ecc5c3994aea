//! Figures as words: always the same few columns, and a dash for what is not known.

use std::time::Duration;

/// What stands where a figure is not known.
pub const UNKNOWN: &str = "–";

/// `2,140`
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A speed in at most five columns: `9.4`, `212`, `12.3k`.
pub fn rate(value: f64) -> String {
    match value {
        v if !v.is_finite() || v < 0.0 => UNKNOWN.into(),
        0.0 => "0".into(),
        v if v < 9.95 => format!("{v:.1}"),
        v if v < 9_999.5 => format!("{v:.0}"),
        v if v < 999_500.0 => format!("{:.1}k", v / 1e3),
        v => format!("{:.1}M", v / 1e6),
    }
}

pub fn rate_or_unknown(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.into(), rate)
}

/// A time in at most six columns: `620µs`, `5.1ms`, `48ms`, `1.2s`, `3m20s`.
pub fn time(value: Duration) -> String {
    let seconds = value.as_secs_f64();
    match seconds {
        s if s < 0.000_999_5 => format!("{:.0}µs", s * 1e6),
        s if s < 0.009_95 => format!("{:.1}ms", s * 1e3),
        s if s < 0.999_5 => format!("{:.0}ms", s * 1e3),
        s if s < 9.95 => format!("{s:.1}s"),
        s if s < 99.5 => format!("{s:.0}s"),
        s if s < 3600.0 * 99.0 => {
            let whole = s.round() as u64;
            match whole / 3600 {
                0 => format!("{}m{:02}s", whole / 60, whole % 60),
                hours => format!("{hours}h{:02}m", whole / 60 % 60),
            }
        }
        s => format!("{:.0}h", s / 3600.0),
    }
}

pub fn time_or_unknown(value: Option<Duration>) -> String {
    value.map_or_else(|| UNKNOWN.into(), time)
}

/// Bytes in binary units: `512 B`, `12 KiB`, `7.0 MiB`.
pub fn bytes(value: u64) -> String {
    let (scaled, unit) = scale(value);
    match unit {
        "" => format!("{value} B"),
        unit if scaled < 9.95 => format!("{scaled:.1} {unit}iB"),
        unit => format!("{scaled:.0} {unit}iB"),
    }
}

/// Bytes in at most five columns, for tables: `512`, `12K`, `7.0M`.
pub fn bytes_short(value: u64) -> String {
    let (scaled, unit) = scale(value);
    match unit {
        "" => value.to_string(),
        unit if scaled < 9.95 => format!("{scaled:.1}{unit}"),
        unit => format!("{scaled:.0}{unit}"),
    }
}

fn scale(value: u64) -> (f64, &'static str) {
    let mut scaled = value as f64;
    for unit in ["", "K", "M", "G"] {
        if scaled < 1023.5 {
            return (scaled, unit);
        }
        scaled /= 1024.0;
    }
    (scaled, "T")
}

/// Bytes of a download in decimal units, as download pages state them: `98.4 MB`.
pub fn megabytes(value: u64) -> String {
    match value as f64 / 1e6 {
        mb if mb < 99.95 => format!("{mb:.1} MB"),
        mb if mb < 9_999.5 => format!("{mb:.0} MB"),
        mb => format!("{:.1} GB", mb / 1e3),
    }
}

/// A share of a whole: 100 % exactly when all of it, 0 % only when none of it.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return UNKNOWN.into();
    }
    let share = part as f64 * 100.0 / whole as f64;
    match share {
        0.0 => "0%".into(),
        s if s < 1.0 => "<1%".into(),
        s if part < whole && s > 99.0 => "99%".into(),
        s => format!("{s:.0}%"),
    }
}

/// `1 block`, `2 blocks`.
pub fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", self::count(count as u64), if count == 1 { one } else { many })
}
