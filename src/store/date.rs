//! Times of the database as people write them.

/// `2026-03-01 17:05`, of the local time zone; the argument is milliseconds since 1970.
pub fn date(unix_ms: i64) -> String {
    let seconds = unix_ms.div_euclid(1000);
    // SAFETY: both pointers are to values of ours; all-zero is a valid `tm`.
    let local = unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        (!libc::localtime_r(&seconds, &mut local).is_null()).then_some(local)
    };
    match local {
        Some(t) => {
            format!("{:04}-{:02}-{:02} {:02}:{:02}", i64::from(t.tm_year) + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min)
        }
        None => "–".into(),
    }
}

/// `17:05` of the same.
pub fn clock_time(unix_ms: i64) -> String {
    date(unix_ms).rsplit(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_a_date_or_none() {
        assert!(date(1_772_384_700_000).starts_with("2026-03-01 ") || date(1_772_384_700_000).starts_with("2026-03-02 "));
        assert_eq!(date(0).len(), 16);
        for extreme in [i64::MIN, i64::MAX, -1] {
            assert!(!date(extreme).is_empty());
        }
    }
}
