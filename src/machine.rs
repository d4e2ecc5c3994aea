//! What there is to know about this machine.

/// The CPU's name as its maker gives it; the architecture where the system does not say.
pub fn cpu_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Memory that a program could still have without swapping, in bytes: on Linux what the kernel estimates (`MemAvailable`),
/// or what is left of the control group's limit where that is less; elsewhere all memory of the machine. None when nobody
/// says.
pub fn available_memory() -> Option<u64> {
    let Some(available) = std::fs::read_to_string("/proc/meminfo").ok().and_then(|info| mem_available(&info)) else {
        return total_memory();
    };
    let group = |file: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/memory.{file}")).unwrap_or_default();
    let left = group_left(&group("max"), &group("current"), &group("stat"));
    Some(left.map_or(available, |left| left.min(available)))
}

/// What is left of a control group's limit, from its `memory.max`, `memory.current` and `memory.stat`. Pages of files that
/// have not been read lately are in use, and are given up as soon as somebody needs memory. None without a limit.
fn group_left(max: &str, current: &str, stat: &str) -> Option<u64> {
    let limit: u64 = max.trim().parse().ok()?;
    let used: u64 = current.trim().parse().unwrap_or(0);
    let files = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok()).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(files)))
}

fn mem_available(info: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn total_memory() -> Option<u64> {
    // SAFETY: `sysconf` only reads a number of the system.
    let (pages, bytes) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).ok()?.checked_mul(u64::try_from(bytes).ok()?)
}

/// How fast main memory was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemorySpeed {
    pub bytes_per_s: f64,
    /// Bytes of the largest cache: what fits into it need not be read from memory.
    pub last_cache: Option<u64>,
}

/// Bytes of the largest cache that the first CPU has a share of. None when the system does not say.
pub fn last_cache() -> Option<u64> {
    let sizes = (0..8).filter_map(|index| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        cache_size(&std::fs::read_to_string(path).ok()?)
    });
    sizes.max()
}

/// `32768K`, `96M`
fn cache_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Compute threads when nobody says how many. Cores, not hyper-threads: two threads of one core share its multipliers.
pub fn default_threads() -> usize {
    let logical = std::thread::available_parallelism().map_or(1, usize::from);
    physical_cores().map_or(logical, |cores| cores.min(logical)).clamp(1, 256)
}

fn physical_cores() -> Option<usize> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut cores = std::collections::HashSet::new();
    let mut package = "";
    for line in info.lines() {
        match line.split_once(':').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("physical id", id)) => package = id,
            Some(("core id", id)) => {
                cores.insert((package, id));
            }
            _ => {}
        }
    }
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_bytes() {
        assert_eq!(mem_available("MemTotal: 100 kB\nMemAvailable:   23456 kB\nBuffers: 1 kB\n"), Some(23456 << 10));
        for bad in ["", "MemTotal: 1 kB", "MemAvailable: many kB", "MemAvailable: 99999999999999999999 kB", "MemAvailable: 7"] {
            assert_eq!(mem_available(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_group_has_left_what_its_limit_and_its_use_say() {
        let stat = "anon 500\nfile 300\ninactive_file 200\nactive_file 100\n";
        assert_eq!(group_left("1000\n", "800\n", stat), Some(400));
        assert_eq!(group_left("1000\n", "", ""), Some(1000));
        // Counted at different moments.
        assert_eq!(group_left("1000\n", "100\n", stat), Some(1000));
        assert_eq!(group_left("1000\n", "2000\n", ""), Some(0));
        assert_eq!(["max\n", "", "-1"].map(|max| group_left(max, "800\n", stat)), [None; 3]);
    }

    #[test]
    fn cache_sizes_have_units() {
        assert_eq!(["32768K\n", "96M", "512", "1G"].map(cache_size), [32 << 20, 96 << 20, 512, 1 << 30].map(Some));
        assert_eq!(["", "K", "12Q", "99999999999999999999K"].map(cache_size), [None; 4]);
    }

    #[test]
    fn this_machine_has_memory_and_a_name() {
        assert!(available_memory().is_none_or(|bytes| bytes > 1 << 20));
        assert!(!cpu_name().is_empty());
    }
}
