//! The real program with pipes, in an environment that has nothing of the user's.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A user's home that is empty at first.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Home {
        Home(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, contents).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_batchroom"));
        let root = self.path();
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", root)
            .env("XDG_CACHE_HOME", root.join("cache"))
            .env("XDG_CONFIG_HOME", root.join("config"))
            .env("XDG_DATA_HOME", root.join("data"))
            .env("HF_HOME", root.join("hub"))
            .envs(["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"].map(|name| (name, "http://127.0.0.1:9")))
            .envs([("PIP_INDEX_URL", "http://127.0.0.1:9/simple"), ("PIP_RETRIES", "0"), ("PIP_CONFIG_FILE", "/dev/null")])
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).output().expect("the program starts"))
    }

    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ended {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("the program starts");
        child.stdin.take().expect("piped").write_all(input).expect("the program reads");
        Ended::of(child.wait_with_output().expect("the program ends"))
    }
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// None: by a signal.
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    pub fn of(output: Output) -> Ended {
        Ended {
            status: output.status.code(),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// It went well, and said nothing beside the answer but that it was cut at the length asked for.
    #[track_caller]
    pub fn ok(self) -> String {
        let more: Vec<&str> = self.err.lines().filter(|line| !line.contains("cut at max_tokens (")).collect();
        assert_eq!((self.status, more), (Some(0), Vec::new()), "{}", self.out);
        self.out
    }

    /// It went well; each line is an object.
    #[track_caller]
    pub fn objects(self) -> Vec<Value> {
        self.ok().lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
    }

    /// One clear line on standard error with all of these words, nothing on standard output, status 1.
    #[track_caller]
    pub fn refused(self, words: &[&str]) {
        assert_eq!(self.status, Some(1), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        assert!(self.err.starts_with("batchroom: "), "{self:?}");
        assert_eq!(self.err.trim_end().lines().count(), 1, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {self:?}");
        }
        for noise in ["panicked", "backtrace", "RUST_BACKTRACE", "Error {"] {
            assert!(!self.err.contains(noise), "{self:?}");
        }
    }
}

/// Arguments for a greedy answer by nano.
pub fn greedy<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["ask", "--model", "nano", "--temperature", "0"], more].concat()
}
