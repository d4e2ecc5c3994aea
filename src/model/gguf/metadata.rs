//! The key-value part of a GGUF file: checked when it is read, decoded when it is asked for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::cursor::Cursor;
use super::{Bytes, GgufError};

/// Arrays in arrays deeper than this are refused: no model has them, and a reader must not recurse at a file's will.
const MAX_DEPTH: usize = 4;

/// The kinds of metadata values, with their numbers in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Str,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    fn from_id(id: u32) -> Option<ValueType> {
        use ValueType::*;
        [U8, I8, U16, I16, U32, I32, F32, Bool, Str, Array, U64, I64, F64].get(id as usize).copied()
    }

    /// Bytes of one value; for strings and arrays, the least that one can take.
    fn min_bytes(self) -> u64 {
        use ValueType::*;
        match self {
            U8 | I8 | Bool => 1,
            U16 | I16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 | Str => 8,
            Array => 12,
        }
    }

    fn name(self) -> &'static str {
        use ValueType::*;
        match self {
            U8 | I8 | U16 | I16 | U32 | I32 | U64 | I64 => "an integer",
            F32 | F64 => "a number",
            Bool => "true or false",
            Str => "a string",
            Array => "an array",
        }
    }
}

/// Where one value lies in the file: for arrays, all their elements.
#[derive(Clone, Debug)]
struct Place {
    kind: ValueType,
    /// Type and number of elements, when it is an array.
    array: Option<(ValueType, usize)>,
    bytes: Range<usize>,
}

/// The metadata of one file. A getter gives None for an absent key and an error for a value of the wrong kind.
#[derive(Clone, Debug)]
pub struct Metadata {
    file: Arc<str>,
    bytes: Bytes,
    values: BTreeMap<String, Place>,
}

impl Metadata {
    /// Reads `count` pairs; `count` has been checked against the file's length.
    pub(super) fn read(cursor: &mut Cursor<'_>, count: usize, bytes: Bytes) -> Result<Metadata, GgufError> {
        let mut values = BTreeMap::new();
        for index in 0..count {
            let key = cursor.string(&format!("the key of metadata entry {index}"))?;
            let key = match std::str::from_utf8(key) {
                Ok(key) if !key.is_empty() => key.to_owned(),
                _ => return Err(cursor.damaged(format!("the key of metadata entry {index} is empty or not UTF-8"))),
            };
            let place = read_value(cursor, &key)?;
            if values.contains_key(&key) {
                return Err(cursor.damaged(format!("the metadata has \"{key}\" twice")));
            }
            values.insert(key, place);
        }
        Ok(Metadata { file: cursor.file.into(), bytes, values })
    }

    /// All keys, in alphabetical order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Any integer that fits.
    pub fn get_u64(&self, key: &str) -> Result<Option<u64>, GgufError> {
        let Some(place) = self.values.get(key) else { return Ok(None) };
        let value = integer(place.kind, self.raw(place)).and_then(|value| u64::try_from(value).ok());
        value.map(Some).ok_or_else(|| self.wrong(key, place, "an integer from 0"))
    }

    /// Any integer that fits.
    pub fn get_u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        let Some(place) = self.values.get(key) else { return Ok(None) };
        let value = integer(place.kind, self.raw(place)).and_then(|value| u32::try_from(value).ok());
        value.map(Some).ok_or_else(|| self.wrong(key, place, "an integer from 0 to 4294967295"))
    }

    /// A float, or an integer as one.
    pub fn get_f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        let Some(place) = self.values.get(key) else { return Ok(None) };
        number(place.kind, self.raw(place)).map(Some).ok_or_else(|| self.wrong(key, place, "a number"))
    }

    pub fn get_bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        let Some(place) = self.values.get(key) else { return Ok(None) };
        match (place.kind, self.raw(place)) {
            (ValueType::Bool, [byte]) => Ok(Some(*byte != 0)),
            _ => Err(self.wrong(key, place, "true or false")),
        }
    }

    pub fn get_str(&self, key: &str) -> Result<Option<&str>, GgufError> {
        let Some(place) = self.values.get(key) else { return Ok(None) };
        if place.kind != ValueType::Str {
            return Err(self.wrong(key, place, "a string"));
        }
        let text = std::str::from_utf8(self.raw(place));
        text.map(Some).map_err(|_| self.wrong(key, place, "a string of UTF-8"))
    }

    /// An array of strings, borrowed from the file.
    pub fn get_str_array(&self, key: &str) -> Result<Option<Vec<&str>>, GgufError> {
        let Some(place) = self.values.get(key) else { return Ok(None) };
        let wrong = || self.wrong(key, place, "an array of strings of UTF-8");
        let Some((ValueType::Str, count)) = place.array else { return Err(wrong()) };
        let mut cursor = Cursor { file: &self.file, data: self.raw(place), at: 0 };
        let mut out = Vec::with_capacity(count);
        for _ in 0..count {
            out.push(std::str::from_utf8(cursor.string(key)?).map_err(|_| wrong())?);
        }
        Ok(Some(out))
    }

    /// An array of integers of any width, each of which fits an i32.
    pub fn get_i32_array(&self, key: &str) -> Result<Option<Vec<i32>>, GgufError> {
        let decode = |kind, raw: &[u8]| integer(kind, raw).and_then(|value| i32::try_from(value).ok());
        self.get_array(key, "an array of integers", decode)
    }

    /// An array of integers of any width, each of which fits a u32.
    pub fn get_u32_array(&self, key: &str) -> Result<Option<Vec<u32>>, GgufError> {
        let decode = |kind, raw: &[u8]| integer(kind, raw).and_then(|value| u32::try_from(value).ok());
        self.get_array(key, "an array of integers from 0", decode)
    }

    /// An array of numbers.
    pub fn get_f32_array(&self, key: &str) -> Result<Option<Vec<f32>>, GgufError> {
        self.get_array(key, "an array of numbers", number)
    }

    fn get_array<T>(
        &self,
        key: &str,
        expected: &'static str,
        decode: impl Fn(ValueType, &[u8]) -> Option<T>,
    ) -> Result<Option<Vec<T>>, GgufError> {
        let Some(place) = self.values.get(key) else { return Ok(None) };
        let wrong = || self.wrong(key, place, expected);
        let Some((kind, _)) = place.array else { return Err(wrong()) };
        if matches!(kind, ValueType::Str | ValueType::Array) {
            return Err(wrong());
        }
        let raw = self.raw(place).chunks_exact(kind.min_bytes() as usize);
        raw.map(|one| decode(kind, one).ok_or_else(wrong)).collect::<Result<Vec<T>, _>>().map(Some)
    }

    pub fn require_u32(&self, key: &str) -> Result<u32, GgufError> {
        self.get_u32(key)?.ok_or_else(|| self.missing(key))
    }

    pub fn require_f32(&self, key: &str) -> Result<f32, GgufError> {
        self.get_f32(key)?.ok_or_else(|| self.missing(key))
    }

    pub fn require_str(&self, key: &str) -> Result<&str, GgufError> {
        self.get_str(key)?.ok_or_else(|| self.missing(key))
    }

    pub fn require_str_array(&self, key: &str) -> Result<Vec<&str>, GgufError> {
        self.get_str_array(key)?.ok_or_else(|| self.missing(key))
    }

    /// Number of elements, if the value is there and is an array.
    pub fn array_len(&self, key: &str) -> Option<usize> {
        self.values.get(key)?.array.map(|(_, count)| count)
    }

    fn raw(&self, place: &Place) -> &[u8] {
        self.bytes.as_slice().get(place.bytes.clone()).unwrap_or_default()
    }

    fn missing(&self, key: &str) -> GgufError {
        GgufError::MissingKey { file: self.file.to_string(), key: key.into() }
    }

    fn wrong(&self, key: &str, place: &Place, expected: &'static str) -> GgufError {
        let found = match (place.array, integer(place.kind, self.raw(place)), number(place.kind, self.raw(place))) {
            (Some((kind, count)), _, _) => format!("an array of {count}, each {}", kind.name()),
            (None, Some(value), _) => value.to_string(),
            (None, None, Some(value)) => value.to_string(),
            _ => place.kind.name().to_owned(),
        };
        GgufError::WrongValue { file: self.file.to_string(), key: key.into(), expected, found }
    }
}

fn read_type(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueType, GgufError> {
    let id = cursor.u32(&format!("the type of the metadata value \"{key}\""))?;
    ValueType::from_id(id).ok_or_else(|| cursor.damaged(format!("the metadata value \"{key}\" has the unknown type {id}")))
}

fn read_value(cursor: &mut Cursor<'_>, key: &str) -> Result<Place, GgufError> {
    let kind = read_type(cursor, key)?;
    let what = format!("the metadata value \"{key}\"");
    match kind {
        ValueType::Str => {
            let text = cursor.string(&what)?;
            Ok(Place { kind, array: None, bytes: cursor.at - text.len()..cursor.at })
        }
        ValueType::Array => {
            let (element, count) = read_array_head(cursor, key)?;
            let begin = cursor.at;
            skip_elements(cursor, key, element, count, 1)?;
            Ok(Place { kind, array: Some((element, count)), bytes: begin..cursor.at })
        }
        _ => {
            let begin = cursor.at;
            cursor.bytes(kind.min_bytes(), &what)?;
            Ok(Place { kind, array: None, bytes: begin..cursor.at })
        }
    }
}

fn read_array_head(cursor: &mut Cursor<'_>, key: &str) -> Result<(ValueType, usize), GgufError> {
    let element = read_type(cursor, key)?;
    let count = cursor.count(element.min_bytes(), &format!("the array \"{key}\""))?;
    Ok((element, count))
}

fn skip_elements(cursor: &mut Cursor<'_>, key: &str, kind: ValueType, count: usize, depth: usize) -> Result<(), GgufError> {
    if depth > MAX_DEPTH {
        return Err(cursor.damaged(format!("the metadata value \"{key}\" has arrays in arrays more than {MAX_DEPTH} deep")));
    }
    match kind {
        ValueType::Str => {
            for _ in 0..count {
                cursor.string(key)?;
            }
        }
        ValueType::Array => {
            for _ in 0..count {
                let (element, inner) = read_array_head(cursor, key)?;
                skip_elements(cursor, key, element, inner, depth + 1)?;
            }
        }
        _ => {
            cursor.bytes(count as u64 * kind.min_bytes(), key)?;
        }
    }
    Ok(())
}

/// The first `N` bytes; zeros where the value is shorter, which the reader has excluded.
fn le<const N: usize>(raw: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(raw) {
        *to = *from;
    }
    out
}

fn integer(kind: ValueType, raw: &[u8]) -> Option<i128> {
    Some(match kind {
        ValueType::U8 => u8::from_le_bytes(le(raw)).into(),
        ValueType::I8 => i8::from_le_bytes(le(raw)).into(),
        ValueType::U16 => u16::from_le_bytes(le(raw)).into(),
        ValueType::I16 => i16::from_le_bytes(le(raw)).into(),
        ValueType::U32 => u32::from_le_bytes(le(raw)).into(),
        ValueType::I32 => i32::from_le_bytes(le(raw)).into(),
        ValueType::U64 => u64::from_le_bytes(le(raw)).into(),
        ValueType::I64 => i64::from_le_bytes(le(raw)).into(),
        _ => return None,
    })
}

fn number(kind: ValueType, raw: &[u8]) -> Option<f32> {
    match kind {
        ValueType::F32 => Some(f32::from_le_bytes(le(raw))),
        ValueType::F64 => Some(f64::from_le_bytes(le(raw)) as f32),
        _ => integer(kind, raw).map(|value| value as f32),
    }
}
