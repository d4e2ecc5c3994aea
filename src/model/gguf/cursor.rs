//! A reader that never goes past the end and never believes a count.

use super::GgufError;

/// A position in a file's bytes. Every read is checked against what is left.
pub(super) struct Cursor<'a> {
    pub file: &'a str,
    pub data: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn left(&self) -> usize {
        self.data.len() - self.at
    }

    fn truncated(&self, what: &str, needed: u64) -> GgufError {
        GgufError::Truncated { file: self.file.into(), what: what.into(), at: self.at, needed, left: self.left() }
    }

    pub fn damaged(&self, what: String) -> GgufError {
        GgufError::Damaged { file: self.file.into(), what }
    }

    pub fn bytes(&mut self, count: u64, what: &str) -> Result<&'a [u8], GgufError> {
        let len = usize::try_from(count).ok().filter(|len| *len <= self.left());
        let len = len.ok_or_else(|| self.truncated(what, count))?;
        let bytes = &self.data[self.at..self.at + len];
        self.at += len;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufError> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N as u64, what)?);
        Ok(out)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A count of things that take at least `min_bytes` each in the file: refused before anything is allotted for it.
    pub fn count(&mut self, min_bytes: u64, what: &str) -> Result<usize, GgufError> {
        let count = self.u64(what)?;
        let needed = count.saturating_mul(min_bytes);
        if needed > self.left() as u64 {
            return Err(self.truncated(&format!("{what} of {count}"), needed));
        }
        Ok(count as usize)
    }

    /// A length and so many bytes.
    pub fn string(&mut self, what: &str) -> Result<&'a [u8], GgufError> {
        let len = self.u64(what)?;
        self.bytes(len, what)
    }
}
