//! The tensor types of GGML and the sizes of their blocks.

use std::fmt;

/// How the numbers of a tensor are stored. Names and layouts are those of GGML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types)]
pub enum GgmlType {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_K,
    I8,
    I16,
    I32,
    I64,
    F64,
    BF16,
}

/// Number in the file, type, name, elements per block, bytes per block.
const TYPES: [(u32, GgmlType, &str, usize, usize); 20] = [
    (0, GgmlType::F32, "F32", 1, 4),
    (1, GgmlType::F16, "F16", 1, 2),
    (2, GgmlType::Q4_0, "Q4_0", 32, 18),
    (3, GgmlType::Q4_1, "Q4_1", 32, 20),
    (6, GgmlType::Q5_0, "Q5_0", 32, 22),
    (7, GgmlType::Q5_1, "Q5_1", 32, 24),
    (8, GgmlType::Q8_0, "Q8_0", 32, 34),
    (9, GgmlType::Q8_1, "Q8_1", 32, 36),
    (10, GgmlType::Q2_K, "Q2_K", 256, 84),
    (11, GgmlType::Q3_K, "Q3_K", 256, 110),
    (12, GgmlType::Q4_K, "Q4_K", 256, 144),
    (13, GgmlType::Q5_K, "Q5_K", 256, 176),
    (14, GgmlType::Q6_K, "Q6_K", 256, 210),
    (15, GgmlType::Q8_K, "Q8_K", 256, 292),
    (24, GgmlType::I8, "I8", 1, 1),
    (25, GgmlType::I16, "I16", 1, 2),
    (26, GgmlType::I32, "I32", 1, 4),
    (27, GgmlType::I64, "I64", 1, 8),
    (28, GgmlType::F64, "F64", 1, 8),
    (30, GgmlType::BF16, "BF16", 1, 2),
];

impl GgmlType {
    /// The type with this number in a GGUF file.
    pub fn from_id(id: u32) -> Option<GgmlType> {
        TYPES.iter().find(|row| row.0 == id).map(|row| row.1)
    }

    /// Every type, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = GgmlType> {
        TYPES.iter().map(|row| row.1)
    }

    /// Where a block keeps its f16 numbers (scales and mins), in bytes; None for a type whose numbers are all floats,
    /// or that has other scales. Everything else in a block may be any bits at all.
    pub fn halves(self) -> Option<std::ops::Range<usize>> {
        match self {
            GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 => Some(0..2),
            GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => Some(0..4),
            GgmlType::Q2_K => Some(80..84),
            GgmlType::Q3_K => Some(108..110),
            GgmlType::Q6_K => Some(208..210),
            _ => None,
        }
    }

    fn row(self) -> &'static (u32, GgmlType, &'static str, usize, usize) {
        TYPES.iter().find(|row| row.1 == self).unwrap_or(&TYPES[0])
    }

    /// The number of this type in a GGUF file.
    pub fn id(self) -> u32 {
        self.row().0
    }

    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Numbers in one block: a row's length must be a multiple of it.
    pub fn block_elements(self) -> usize {
        self.row().3
    }

    /// Bytes of one block.
    pub fn block_bytes(self) -> usize {
        self.row().4
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
