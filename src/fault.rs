//! A fault with its causes, in one sentence.

/// The messages of an error and its causes, joined by colons. A cause that the messages before have named already
/// (many of ours do, where it reads best) is not said twice.
pub fn words(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::model::ModelError;

    #[test]
    fn a_cause_is_said_once() {
        let refused = || std::io::Error::from_raw_os_error(libc::ENOMEM);
        let cause = refused().to_string();
        let full = crate::model::kernels::OutOfMemory { what: "the KV memory", bytes: 7, source: refused() };
        let named = anyhow::Error::from(ModelError::from(full));
        assert_eq!(words(&named).matches(&cause).count(), 1, "{named:#}");
        assert!(words(&named).starts_with("7 bytes for the KV memory could not be had ("));

        let unnamed = Err::<(), _>(refused()).context("cannot read x").unwrap_err();
        assert_eq!(words(&unnamed), format!("cannot read x: {cause}"));
    }
}
