//! How repacked weights lie in memory.
//!
//! A matrix is cut into *panels* of 16 output rows (the last one padded with zeros). Inside a panel the input
//! dimension goes in groups of 32; a group's codes come in *quads*: 64 bytes that hold, for each of the 16
//! rows, 4 neighbours along the input, in the order 0, 2, 1, 3: the low bytes of its two 16-bit words are then the
//! neighbours 0 and 1, the high ones 2 and 3. One 512-bit multiply-add serves 16 rows times 2 such inputs.
//! After the codes come the group's scales (and mins) of the 16 rows. Codes, scales and mins are those of
//! the file, so nothing is lost; codes that stand for signed numbers are stored as such (two's complement).
//!
//! ```text
//! Q4_0   [4 quads, 2 codes a byte: 256][scale 16 x f16]
//! Q4_1   [4 quads, 2 codes a byte: 256][scale 16 x f16][min 16 x f16]
//! Q8_0   [8 quads, one code a byte: 512][scale 16 x f16]
//! Q5_1   [8 quads, one code a byte: 512][scale 16 x f16][min 16 x f16]
//! Q2_K   per 256: [d 16 x f16][dmin 16 x f16], then 8 x [256 bytes of codes][2 x scale 16 x u8][2 x min 16 x u8]
//! Q3_K   per 256: [d 16 x f16], then 8 x [256 bytes of codes][2 x scale 16 x i8]
//! Q4_K   per 256: [d 16 x f16][dmin 16 x f16], then 8 x [256 bytes of codes][scale 16 x u8][min 16 x u8]
//! Q5_K   per 256: [d 16 x f16][dmin 16 x f16], then 8 x [512 bytes of codes][scale 16 x u8][min 16 x u8]
//! Q6_K   per 256: [d 16 x f16], then 16 x [4 quads, one code a byte: 256][scale 16 x i8]
//! F32    per input: 16 x f32      F16, BF16: 16 x two bytes
//! ```
//! In the packed 4-bit groups the low half of quad q's bytes holds inputs `4q..4q+4`, the high half `16+4q..`. Types of 2 and
//! 3 bits take 4 here, those of 5 bits take 8 (Q5_0 lies as Q8_0): fewer kernels, and no number changes.

use super::super::gguf::GgmlType;

/// Output rows that lie interleaved.
pub const PANEL: usize = 16;
/// Inputs that share one activation scale.
pub const GROUP: usize = 32;

/// Where the neighbours of a quad lie in its four bytes.
pub(super) const QUAD_ORDER: [usize; 4] = [0, 2, 1, 3];

/// A storage form that the kernels can multiply with. Named after the type of the file whose numbers it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)]
pub enum Layout {
    Q4_0,
    Q4_1,
    Q8_0,
    Q5_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    F32,
    F16,
    BF16,
}

/// For messages.
pub const SUPPORTED_TYPES: &str = "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, F16, BF16, F32";

impl Layout {
    /// The layout for a file's type, if there is one.
    pub fn of(ggml_type: GgmlType) -> Option<Layout> {
        Some(match ggml_type {
            GgmlType::Q4_0 => Layout::Q4_0,
            GgmlType::Q4_1 => Layout::Q4_1,
            GgmlType::Q5_0 | GgmlType::Q8_0 => Layout::Q8_0,
            GgmlType::Q5_1 => Layout::Q5_1,
            GgmlType::Q2_K => Layout::Q2_K,
            GgmlType::Q3_K => Layout::Q3_K,
            GgmlType::Q4_K => Layout::Q4_K,
            GgmlType::Q5_K => Layout::Q5_K,
            GgmlType::Q6_K => Layout::Q6_K,
            GgmlType::F32 => Layout::F32,
            GgmlType::F16 => Layout::F16,
            GgmlType::BF16 => Layout::BF16,
            _ => return None,
        })
    }

    /// Whether activations are multiplied as floats (and not as 16-bit integers).
    pub fn is_float(self) -> bool {
        matches!(self, Layout::F32 | Layout::F16 | Layout::BF16)
    }

    /// Inputs in one unit of the layout: the input dimension must be a multiple of it.
    pub fn unit(self) -> usize {
        match self {
            Layout::Q4_0 | Layout::Q4_1 | Layout::Q5_1 | Layout::Q8_0 => GROUP,
            Layout::Q2_K | Layout::Q3_K | Layout::Q4_K | Layout::Q5_K | Layout::Q6_K => 256,
            Layout::F32 | Layout::F16 | Layout::BF16 => 1,
        }
    }

    /// Whether each half of a group has a scale of its own.
    pub(super) fn has_two_scales(self) -> bool {
        matches!(self, Layout::Q2_K | Layout::Q3_K | Layout::Q6_K)
    }

    /// Bytes of one unit of one panel.
    pub fn unit_bytes(self) -> usize {
        match self {
            Layout::Q4_0 => 256 + 32,
            Layout::Q4_1 => 256 + 64,
            Layout::Q8_0 => 512 + 32,
            Layout::Q5_1 => 512 + 64,
            Layout::Q2_K => 64 + 8 * (256 + 64),
            Layout::Q3_K => 32 + 8 * (256 + 32),
            Layout::Q4_K => 64 + 8 * (256 + 32),
            Layout::Q5_K => 64 + 8 * (512 + 32),
            Layout::Q6_K => 32 + 16 * (256 + 16),
            Layout::F32 => 64,
            Layout::F16 | Layout::BF16 => 32,
        }
    }
}
