use super::*;

#[test]
fn sizes() {
    for (text, bytes) in [("512MiB", 512 << 20), ("1.5GB", 1_500_000_000), ("4096", 4096), ("64 KiB", 64 << 10)] {
        assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
    }
    for bad in ["", "MiB", "-1", "0", "1e9", "12 parsecs", "nan", "99999999999TiB"] {
        assert!(parse_size(bad).is_err(), "{bad}");
    }
}

#[test]
fn times() {
    for (text, micros) in [("25ms", 25_000), ("0.5 s", 500_000), (" 1.5ms", 1500)] {
        assert_eq!(parse_time(text).unwrap(), Duration::from_micros(micros), "{text}");
    }
    for bad in ["", "25", "0ms", "-5ms", "nanms", "61s", "5 m"] {
        assert!(parse_time(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_flag_wins_over_the_file() {
    let file = RawConfig::parse("panes = 2\ntemperature = 0.5\npace = \"7.5\"").unwrap();
    let flags = RawConfig { temperature: Some(0.0), ..RawConfig::default() };
    let config = flags.or(file).check().unwrap();
    assert_eq!((config.sampling.temperature, config.screen.panes), (0.0, 2));
    assert_eq!(config.screen.pace, PaceChoice::StepsPerSecond(7.5));
    let pace = |text: &str| RawConfig::parse(text).unwrap().check().unwrap().screen.pace;
    assert_eq!((pace("pace = 30"), pace("pace = 2.5")), (PaceChoice::StepsPerSecond(30.0), PaceChoice::StepsPerSecond(2.5)));
    assert!(RawConfig::parse("pace = [1]").unwrap_err().words.contains("it must be a number, or a text"));
}

#[test]
fn kv_memory_is_said_once() {
    let budget = |flags: &str, file: &str| {
        let config = RawConfig::parse(flags).unwrap().or(RawConfig::parse(file).unwrap()).check();
        config.map(|config| config.engine.kv_memory).map_err(|error| error.to_string())
    };
    let (bytes, share) = ("kv_memory = \"1MiB\"", "memory_utilization = 0.5");
    assert_eq!(budget("", "").unwrap(), KvBudget::Seats);
    assert_eq!(budget("", share).unwrap(), KvBudget::ShareOfFree(0.5));
    // A flag wins over the file, whichever of the two each of them is.
    assert_eq!(budget(bytes, share).unwrap(), KvBudget::Bytes(1 << 20));
    assert_eq!(budget(share, bytes).unwrap(), KvBudget::ShareOfFree(0.5));
    for (flags, file) in [(format!("{bytes}\n{share}"), String::new()), (String::new(), format!("{bytes}\n{share}"))] {
        let error = budget(&flags, &file).unwrap_err();
        assert!(error.contains("kv_memory and memory_utilization"), "{error}");
    }
    assert_eq!(budget("", "memory_utilization = 1.0").unwrap(), KvBudget::ShareOfFree(1.0));
    for bad in ["0.0", "-0.5", "1.01", "nan", "inf"] {
        let error = budget(&format!("memory_utilization = {bad}"), "").unwrap_err();
        assert!(error.contains("memory_utilization") && error.contains("above 0 and at most 1"), "{error}");
    }
    assert!(budget("memory_utilization = 0.5\ndevice = \"cuda\"", "").unwrap_err().contains("give kv_memory"));
}

#[test]
fn kinds_of_keys_and_values() {
    let kind = |text: &str| {
        let config = RawConfig::parse(text).unwrap().check();
        config.map(|config| config.engine.kv_type).map_err(|error| error.to_string())
    };
    for expected in KvType::ALL {
        assert_eq!(kind(&format!("kv_type = \"{expected}\"")), Ok(expected));
    }
    assert_eq!(kind("kv_type = \"q4_0\""), Err("kv_type is `q4_0`: it must be f16, q8_0 or f32".into()));
    for refused in ["q8_0", "f16"] {
        let error = kind(&format!("kv_type = \"{refused}\"\ndevice = \"candle\"")).unwrap_err();
        assert!(error.contains("tensor operations keep f32"), "{error}");
    }
    assert_eq!(kind("kv_type = \"f32\"\ndevice = \"candle\""), Ok(KvType::F32));
}

#[test]
fn keys_that_could_never_work_are_refused() {
    let error = |keys: &str| {
        let config = RawConfig::parse(&format!("[keys]\n{keys}")).unwrap().check();
        config.map(|config| config.screen.keys.len()).map_err(|error| error.to_string())
    };
    assert_eq!(error("pause = \"F9\"\nstep_ten = [\"Alt-0\", \"Shift-F3\"]"), Ok(2));
    for bad in ["\"Alt-5\"", "\"Ctrl-Shift-K\"", "\"Space\"", "\"x\"", "\"F99\"", "\"\""] {
        assert!(error(&format!("pause = {bad}")).unwrap_err().contains("must be a key such as"), "{bad}");
    }
    assert!(error("pase = \"F9\"").unwrap_err().contains("did you mean `pause`"));
    assert!(error("pause = \"F9\"\nstep = \"F9\"").unwrap_err().contains("given to pause already"));
    assert!(error("palette = []").unwrap_err().contains("no key any more"));
    assert!(error("pause = \"Enter\"").unwrap_err().contains("keys.send: it would have no key"));
}

#[test]
fn an_error_of_the_file_names_line_and_key() {
    let mistake = RawConfig::parse("panes = 2\nmax_num_seq = 3\n").unwrap_err();
    assert_eq!(mistake.to_string(), "2: `max_num_seq` is not an option: did you mean `max_num_seqs`?");
    assert_eq!(RawConfig::parse("\n\npanes = \"four\"").unwrap_err().line, 3);
}

#[test]
fn values_out_of_range_are_named() {
    let error = |text: &str| RawConfig::parse(text).unwrap().check().unwrap_err().to_string();
    assert_eq!(error("panes = 17"), "panes is `17`: it must be from 1 to 16");
    assert!(error("temperature = -1.0").contains("temperature"));
    assert_eq!(error("device = \"gpu\""), "device is `gpu`: it must be cpu, candle, cuda or metal");
    assert!(error("[presets.odd]\ntop_p = 2.0").contains("presets.odd.top_p is `2`: it must be above 0"));
    assert!(error("[presets.\"a b\"]").contains("letters, digits"));
    let config = RawConfig::parse("top_k = 7\n[presets.short]\nmax_tokens = 9").unwrap().check().unwrap();
    assert_eq!((config.presets[0].sampling.top_k, config.presets[0].sampling.max_tokens), (7, 9));
    assert!(error("pace = \"fast\"").contains("auto, full, or steps a second"));
}

#[test]
fn the_file_that_said_it_is_named_and_a_flag_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.toml");
    let load = |text: &str, flags: RawConfig| {
        std::fs::write(&path, text).unwrap();
        load(flags, Some(&path)).unwrap_err().to_string()
    };
    let said = load("fps = 30\npanes = 17\n", RawConfig::default());
    assert!(said.ends_with("my.toml:2: panes is `17`: it must be from 1 to 16"), "{said}");
    let said = load("\n\ntop_p = 2.0\n", RawConfig::default());
    assert!(said.contains("my.toml:3: top_p is 2"), "{said}");
    // In a table: the line of what is wrong, and its own name.
    let said = load("fps = 30\n[keys]\npause = \"F9\"\n\nsendd = \"F2\"\n", RawConfig::default());
    assert!(said.ends_with("my.toml:5: keys.sendd: there is no action of that name; did you mean `send`?"), "{said}");
    let said = load("[keys]\nstep = \"F9\"\npause = \"Q\"\n", RawConfig::default());
    assert!(said.contains("my.toml:3: keys.pause is `Q`: it must be a key"), "{said}");
    let said = load("[presets.a]\ntop_k = 2\n\n[presets.b]\ntop_k = 3\ntop_p = 2.0\n", RawConfig::default());
    assert!(said.contains("my.toml:6: presets.b.top_p is `2`: it must be"), "{said}");
    let flags = RawConfig { panes: Some(99), ..RawConfig::default() };
    assert_eq!(load("panes = 17\n", flags), "panes is `99`: it must be from 1 to 16");
}
