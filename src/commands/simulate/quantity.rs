//! Numbers with units, as they are written on the command line.

use anyhow::{bail, ensure};

/// Names of units and their factors; the empty name is a number without one.
type Units = &'static [(&'static str, f64)];

const SIZES: Units = &[
    ("", 1.0),
    ("b", 1.0),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
];
const FLOPS: Units = &[("", 1.0), ("g", 1e9), ("t", 1e12), ("p", 1e15)];
const TIMES: Units = &[
    ("", 1.0),
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

/// Bytes: `24GB` (1 GB = 1e9 bytes), `512MiB`.
///
/// # Errors
/// When it is no size from one byte to 2^60.
pub fn size(name: &str, text: &str) -> anyhow::Result<u64> {
    let wanted = "a size such as 24GB (1e9 bytes each), 512MiB or 4096 (bytes)";
    Ok(quantity(name, text, SIZES, &[], (1.0, (1u64 << 60) as f64), wanted)? as u64)
}

/// Bytes a second: `1008GB/s`.
///
/// # Errors
/// When it is no rate from one byte a second to an exabyte a second.
pub fn bandwidth(name: &str, text: &str) -> anyhow::Result<f64> {
    quantity(name, text, SIZES, &["/s"], (1.0, 1e18), "bytes a second such as 1008GB/s or 3.35TB/s")
}

/// FLOPs a second: `165T`, `165TFLOP/s`.
///
/// # Errors
/// When it is no rate from one a second to 1e21.
pub fn flops(name: &str, text: &str) -> anyhow::Result<f64> {
    quantity(name, text, FLOPS, &["/s", "flops", "flop"], (1.0, 1e21), "FLOPs a second such as 165T or 989TFLOP/s")
}

/// Seconds: `2ms`, `24h`; a bare number is in seconds.
///
/// # Errors
/// When it is no time from 0 to ten years.
pub fn time(name: &str, text: &str) -> anyhow::Result<f64> {
    quantity(name, text, TIMES, &[], (0.0, 3.2e8), "a time such as 2ms, 30s or 24h, of ten years at most")
}

/// A share of a whole: above 0, at most 1.
///
/// # Errors
/// When it is not.
pub fn share(name: &str, value: f64) -> anyhow::Result<f64> {
    ensure!(value > 0.0 && value <= 1.0, "{name} is {value}: it must be above 0 and at most 1");
    Ok(value)
}

fn quantity(
    name: &str,
    text: &str,
    units: Units,
    endings: &[&str],
    (low, high): (f64, f64),
    wanted: &str,
) -> anyhow::Result<f64> {
    let lower = text.trim().to_lowercase();
    let number_ends = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, mut unit) = lower.split_at(number_ends);
    for ending in endings {
        unit = unit.strip_suffix(ending).unwrap_or(unit);
    }
    let factor = units.iter().find(|(known, _)| *known == unit.trim()).map(|(_, factor)| factor);
    match (number.parse::<f64>(), factor) {
        (Ok(number), Some(factor)) if (low..=high).contains(&(number * factor)) => Ok(number * factor),
        _ => bail!("{name} is `{text}`: it must be {wanted}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(size("x", "24GB").unwrap(), 24_000_000_000);
        assert_eq!(size("x", " 1.5 GiB").unwrap(), 3 << 29);
        for text in ["1008GB/s", "1008gb", "1.008TB/s"] {
            assert!((bandwidth("x", text).unwrap() / 1.008e12 - 1.0).abs() < 1e-12, "{text}");
        }
        for text in ["165T", "165 TFLOP/s", "165TFLOPS", "165000G", "0.165p"] {
            assert!((flops("x", text).unwrap() / 1.65e14 - 1.0).abs() < 1e-12, "{text}");
        }
        for (text, seconds) in
            [("2ms", 0.002), ("0", 0.0), ("90", 90.0), ("1.5h", 5400.0), ("7us", 7e-6), ("7µs", 7e-6), ("1d", 86_400.0)]
        {
            assert_eq!(time("x", text).unwrap(), seconds, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_named() {
        for bad in ["", "GB", "-1GB", "0", "nan", "inf", "1e9", "5 parsecs", "99999999999TB", "1.2.3GB"] {
            let message = size("--memory", bad).unwrap_err().to_string();
            assert!(message.starts_with(&format!("--memory is `{bad}`")) && message.contains("24GB"), "{message}");
        }
        for bad in ["", "-2ms", "ms", "2 lightyears", "9999999999"] {
            assert!(time("x", bad).is_err(), "{bad}");
        }
        assert!(bandwidth("x", "0GB/s").is_err() && flops("x", "165Q").is_err());
        for bad in [0.0, -0.5, 1.1, f64::NAN] {
            assert!(share("x", bad).is_err(), "{bad}");
        }
        assert_eq!(share("x", 1.0).unwrap(), 1.0);
    }
}
