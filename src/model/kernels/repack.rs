//! From a file's rows to interleaved panels, and back to single rows.

use half::{bf16, f16};

use super::super::gguf::GgmlType;
use super::layout::{GROUP, Layout, PANEL, QUAD_ORDER};

/// Writes 16 rows (fewer in a last panel) as one panel.
///
/// `rows` holds whole rows as the file has them, each `rows.len() / count` bytes; `panel` is zeroed and has the
/// panel's size. The caller has checked both.
pub(super) fn repack_panel(ggml_type: GgmlType, rows: &[u8], count: usize, panel: &mut [u8]) {
    let Some(layout) = Layout::of(ggml_type) else { return };
    let row_bytes = rows.len() / count;
    for (lane, row) in rows.chunks_exact(row_bytes).enumerate() {
        let blocks = row.chunks_exact(ggml_type.block_bytes());
        for (block, unit) in blocks.zip(panel.chunks_exact_mut(layout.unit_bytes())) {
            match (ggml_type, layout) {
                (GgmlType::Q5_0, _) => put_q5(block, 2, -16, lane, unit),
                (_, Layout::Q4_0) => put_q4(block, 2, 0x88, lane, unit),
                (_, Layout::Q4_1) => put_q4(block, 4, 0, lane, unit),
                (_, Layout::Q8_0) => put_q8(block, lane, unit),
                (_, Layout::Q5_1) => put_q5(block, 4, 0, lane, unit),
                (_, Layout::Q2_K) => put_q2_k(block, lane, unit),
                (_, Layout::Q3_K) => put_q3_k(block, lane, unit),
                (_, Layout::Q4_K) => put_q4_k(block, lane, unit),
                (_, Layout::Q5_K) => put_q5_k(block, lane, unit),
                (_, Layout::Q6_K) => put_q6_k(block, lane, unit),
                (_, Layout::F32) => unit[lane * 4..][..4].copy_from_slice(block),
                (_, Layout::F16 | Layout::BF16) => unit[lane * 2..][..2].copy_from_slice(block),
            }
        }
    }
}

/// Q4_0 and Q4_1: `head` bytes of scale (and min), then 16 bytes of which the low halves are inputs 0..16.
/// Flipping a code's top bit makes one that was raised by 8 a signed one.
fn put_q4(block: &[u8], head: usize, flip: u8, lane: usize, unit: &mut [u8]) {
    for (index, codes) in block[head..].iter().enumerate() {
        unit[code_at(index, lane)] = codes ^ flip;
    }
    for (index, number) in block[..head].chunks_exact(2).enumerate() {
        unit[256 + index * 32 + lane * 2..][..2].copy_from_slice(number);
    }
}

/// Where one lane's byte number `index` lies in its group.
#[inline(always)]
fn code_at(index: usize, lane: usize) -> usize {
    index / 4 * 64 + lane * 4 + QUAD_ORDER[index % 4]
}

fn put_q8(block: &[u8], lane: usize, unit: &mut [u8]) {
    for (index, code) in block[2..].iter().enumerate() {
        unit[code_at(index, lane)] = *code;
    }
    unit[512 + lane * 2..][..2].copy_from_slice(&block[..2]);
}

/// Q5_0 and Q5_1: `head` bytes of scale (and min), 4 of high bits, then as in [`put_q4`]. `offset` is added to codes.
fn put_q5(block: &[u8], head: usize, offset: i8, lane: usize, unit: &mut [u8]) {
    let (numbers, rest) = block.split_at(head);
    let (high, low) = rest.split_at(4);
    let code = |input: usize| {
        let four = low[input % 16] >> (input / 16 * 4) & 15;
        let one = high[input / 8] >> (input % 8) & 1;
        (four | one << 4).wrapping_add_signed(offset)
    };
    (0..GROUP).for_each(|input| unit[code_at(input, lane)] = code(input));
    for (index, number) in numbers.chunks_exact(2).enumerate() {
        unit[512 + index * 32 + lane * 2..][..2].copy_from_slice(number);
    }
}

/// 16 bytes of 4-bit scale and min, 64 of pairs: in each 32 of them the lowest pairs are one group. Then two f16.
fn put_q2_k(block: &[u8], lane: usize, unit: &mut [u8]) {
    let (scales, codes, numbers) = (&block[..16], &block[16..80], &block[80..84]);
    unit[lane * 2..][..2].copy_from_slice(&numbers[..2]);
    unit[32 + lane * 2..][..2].copy_from_slice(&numbers[2..]);
    for (group, out) in unit[64..].chunks_exact_mut(256 + 64).enumerate() {
        let code = |index: usize| codes[group / 4 * 32 + index] >> (2 * (group % 4)) & 3;
        for index in 0..16 {
            out[code_at(index, lane)] = code(index) | (code(index + 16) << 4);
        }
        for half in 0..2 {
            out[256 + half * 16 + lane] = scales[group * 2 + half] & 15;
            out[288 + half * 16 + lane] = scales[group * 2 + half] >> 4;
        }
    }
}

/// 32 bytes of high bits (set: nothing to be taken away), 64 of pairs as in [`put_q2_k`], 12 of 6-bit scales, one f16.
fn put_q3_k(block: &[u8], lane: usize, unit: &mut [u8]) {
    let (high, low, scales) = (&block[..32], &block[32..96], &block[96..108]);
    unit[lane * 2..][..2].copy_from_slice(&block[108..110]);
    for (group, out) in unit[32..].chunks_exact_mut(256 + 32).enumerate() {
        let code = |index: usize| {
            let two = low[group / 4 * 32 + index] >> (2 * (group % 4)) & 3;
            let one = high[index] >> group & 1;
            (two | one << 2).wrapping_sub(4) & 15
        };
        for index in 0..16 {
            out[code_at(index, lane)] = code(index) | (code(index + 16) << 4);
        }
        for half in 0..2 {
            let index = group * 2 + half;
            let four = scales[index % 8] >> (index / 8 * 4) & 15;
            let two = scales[8 + index % 4] >> (index / 4 * 2) & 3;
            out[256 + half * 16 + lane] = (four | two << 4).wrapping_sub(32);
        }
    }
}

/// As Q4_K, with 32 bytes of high bits before the codes, bit g for group g.
fn put_q5_k(block: &[u8], lane: usize, unit: &mut [u8]) {
    unit[lane * 2..][..2].copy_from_slice(&block[..2]);
    unit[32 + lane * 2..][..2].copy_from_slice(&block[2..4]);
    for (group, out) in unit[64..].chunks_exact_mut(512 + 32).enumerate() {
        let (high, low) = (&block[16..48], &block[48 + group / 2 * 32..][..32]);
        for index in 0..GROUP {
            let four = low[index] >> (4 * (group % 2)) & 15;
            out[code_at(index, lane)] = four | (high[index] >> group & 1) << 4;
        }
        let (scale, min) = scale_and_min(&block[4..16], group);
        out[512 + lane] = scale;
        out[528 + lane] = min;
    }
}

/// Two f16, 12 bytes of 6-bit scales and mins, 128 bytes of codes: in each 32 of them the low halves are one group.
fn put_q4_k(block: &[u8], lane: usize, unit: &mut [u8]) {
    unit[lane * 2..][..2].copy_from_slice(&block[..2]);
    unit[32 + lane * 2..][..2].copy_from_slice(&block[2..4]);
    for (group, out) in unit[64..].chunks_exact_mut(256 + 32).enumerate() {
        let source = &block[16 + group / 2 * 32..][..32];
        let code = |index: usize| (source[index] >> (4 * (group % 2))) & 15;
        for index in 0..16 {
            out[code_at(index, lane)] = code(index) | (code(index + 16) << 4);
        }
        let (scale, min) = scale_and_min(&block[4..16], group);
        out[256 + lane] = scale;
        out[272 + lane] = min;
    }
}

/// The 6-bit scale and min of one of a Q4_K block's eight groups.
fn scale_and_min(packed: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let scale = (packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4);
        let min = (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4);
        (scale, min)
    }
}

/// 128 bytes of low halves, 64 of high pairs, 16 signed scales, one f16.
fn put_q6_k(block: &[u8], lane: usize, unit: &mut [u8]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    unit[lane * 2..][..2].copy_from_slice(&block[208..210]);
    for (group, out) in unit[32..].chunks_exact_mut(256 + 16).enumerate() {
        for index in 0..16 {
            let input = group * 16 + index;
            let (half, quarter, at) = (input / 128, input % 128 / 32, input % 32);
            let four = low[half * 64 + (quarter % 2) * 32 + at] >> (4 * (quarter / 2)) & 15;
            let two = high[half * 32 + at] >> (2 * quarter) & 3;
            out[code_at(index, lane)] = (four | (two << 4)).wrapping_sub(32);
        }
        out[256 + lane] = scales[group];
    }
}

/// One group of 32 inputs of one panel, unpacked: what the portable kernel multiplies and what a lookup reads.
pub(super) struct Group {
    /// `codes[input][lane]`.
    pub codes: [[i8; PANEL]; GROUP],
    /// Scale of inputs 0..16 and of 16..32.
    pub scales: [[f32; PANEL]; 2],
    /// To be added to each weight after scaling, of inputs 0..16 and of 16..32; zero where the type has none.
    pub mins: [[f32; PANEL]; 2],
}

/// Two bytes as the f32 of the same value.
#[inline(always)]
fn half_at(bytes: &[u8], index: usize) -> f32 {
    f16::from_le_bytes([bytes[index * 2], bytes[index * 2 + 1]]).to_f32_const()
}

fn halves(bytes: &[u8]) -> [f32; PANEL] {
    std::array::from_fn(|lane| half_at(bytes, lane))
}

/// Unpacks a group of a quantized layout.
pub(super) fn unpack_group(layout: Layout, panel: &[u8], group: usize) -> Group {
    let unit_groups = layout.unit() / GROUP;
    let unit = &panel[group / unit_groups * layout.unit_bytes()..][..layout.unit_bytes()];
    let inner = group % unit_groups;
    match layout {
        Layout::Q4_0 => Group::of(signed_nibbles(unit), halves(&unit[256..]), NONE),
        Layout::Q4_1 => Group::of(nibbles(unit), halves(&unit[256..]), halves(&unit[288..])),
        Layout::Q8_0 => Group::of(octets(&unit[..256], &unit[256..]), halves(&unit[512..]), NONE),
        Layout::Q5_1 => Group::of(octets(&unit[..256], &unit[256..]), halves(&unit[512..]), halves(&unit[544..])),
        Layout::Q2_K => {
            let part = &unit[64 + inner * 320..][..320];
            let (d, dmin) = (halves(unit), halves(&unit[32..]));
            let scale = |half: usize| from_u8(&d, &part[256 + half * 16..]);
            let min = |half: usize| from_u8(&dmin, &part[288 + half * 16..]).map(|min| -min);
            Group { codes: nibbles(part), scales: [scale(0), scale(1)], mins: [min(0), min(1)] }
        }
        Layout::Q3_K => {
            let part = &unit[32 + inner * 288..][..288];
            let scale = |half: usize| from_i8(&halves(unit), &part[256 + half * 16..]);
            Group { codes: signed_nibbles(part), scales: [scale(0), scale(1)], mins: [NONE; 2] }
        }
        Layout::Q4_K => {
            let part = &unit[64 + inner * 288..][..288];
            let min = from_u8(&halves(&unit[32..]), &part[272..]).map(|min| -min);
            Group::of(nibbles(part), from_u8(&halves(unit), &part[256..]), min)
        }
        Layout::Q5_K => {
            let part = &unit[64 + inner * 544..][..544];
            let min = from_u8(&halves(&unit[32..]), &part[528..]).map(|min| -min);
            Group::of(octets(&part[..256], &part[256..]), from_u8(&halves(unit), &part[512..]), min)
        }
        Layout::Q6_K => {
            let (first, second) = unit[32 + inner * 544..][..544].split_at(272);
            let scale = |part: &[u8]| from_i8(&halves(unit), &part[256..]);
            Group { codes: octets(first, second), scales: [scale(first), scale(second)], mins: [NONE; 2] }
        }
        Layout::F32 | Layout::F16 | Layout::BF16 => unreachable!("float layouts have no groups"),
    }
}

const NONE: [f32; PANEL] = [0.0; PANEL];

impl Group {
    /// Both halves alike.
    fn of(codes: [[i8; PANEL]; GROUP], scale: [f32; PANEL], min: [f32; PANEL]) -> Group {
        Group { codes, scales: [scale; 2], mins: [min; 2] }
    }
}

/// Numbers of a unit times small ones of a group.
fn from_u8(numbers: &[f32; PANEL], small: &[u8]) -> [f32; PANEL] {
    std::array::from_fn(|lane| numbers[lane] * f32::from(small[lane]))
}

fn from_i8(numbers: &[f32; PANEL], small: &[u8]) -> [f32; PANEL] {
    std::array::from_fn(|lane| numbers[lane] * f32::from(small[lane] as i8))
}

fn nibbles(bytes: &[u8]) -> [[i8; PANEL]; GROUP] {
    std::array::from_fn(|input| {
        let shift = input / 16 * 4;
        std::array::from_fn(|lane| ((bytes[code_at(input % 16, lane)] >> shift) & 15) as i8)
    })
}

fn signed_nibbles(bytes: &[u8]) -> [[i8; PANEL]; GROUP] {
    nibbles(bytes).map(|lanes| lanes.map(|code| (code ^ 8) - 8))
}

/// Inputs 0..16 from the first 256 bytes, 16..32 from the second.
fn octets(first: &[u8], second: &[u8]) -> [[i8; PANEL]; GROUP] {
    std::array::from_fn(|input| {
        let part = if input < 16 { first } else { second };
        std::array::from_fn(|lane| part[code_at(input % 16, lane)] as i8)
    })
}

/// One weight of one input of a float layout.
#[inline(always)]
fn float_at(layout: Layout, unit: &[u8], lane: usize) -> f32 {
    match layout {
        Layout::F32 => f32::from_le_bytes([unit[lane * 4], unit[lane * 4 + 1], unit[lane * 4 + 2], unit[lane * 4 + 3]]),
        Layout::BF16 => bf16::from_le_bytes([unit[lane * 2], unit[lane * 2 + 1]]).to_f32_const(),
        _ => half_at(unit, lane),
    }
}

/// Writes one output row of a panel as floats, by the formulas of GGML (each operation rounded on its own).
pub(super) fn unpack_row(layout: Layout, panel: &[u8], lane: usize, out: &mut [f32]) {
    let units = panel.chunks_exact(layout.unit_bytes());
    for (unit, values) in units.zip(out.chunks_exact_mut(layout.unit())) {
        match layout {
            Layout::Q4_0 => {
                let scale = half_at(&unit[256..], lane);
                lane_nibbles(unit, lane, values, |code| (i32::from(code ^ 8) - 8) as f32 * scale);
            }
            Layout::Q4_1 => {
                let (scale, min) = (half_at(&unit[256..], lane), half_at(&unit[288..], lane));
                lane_nibbles(unit, lane, values, |code| f32::from(code) * scale + min);
            }
            Layout::Q8_0 => {
                let scale = half_at(&unit[512..], lane);
                lane_octets(unit, lane, values, |code| f32::from(code as i8) * scale);
            }
            Layout::Q5_1 => {
                let (scale, min) = (half_at(&unit[512..], lane), half_at(&unit[544..], lane));
                lane_octets(unit, lane, values, |code| f32::from(code) * scale + min);
            }
            Layout::Q2_K => {
                for (part, values) in unit[64..].chunks_exact(320).zip(values.chunks_exact_mut(GROUP)) {
                    for (half, values) in values.chunks_exact_mut(16).enumerate() {
                        let scale = half_at(unit, lane) * f32::from(part[256 + half * 16 + lane]);
                        let min = half_at(&unit[32..], lane) * f32::from(part[288 + half * 16 + lane]);
                        half_nibbles(part, lane, half, values, |code| f32::from(code) * scale - min);
                    }
                }
            }
            Layout::Q3_K => {
                for (part, values) in unit[32..].chunks_exact(288).zip(values.chunks_exact_mut(GROUP)) {
                    for (half, values) in values.chunks_exact_mut(16).enumerate() {
                        let scale = half_at(unit, lane) * f32::from(part[256 + half * 16 + lane] as i8);
                        half_nibbles(part, lane, half, values, |code| (i32::from(code ^ 8) - 8) as f32 * scale);
                    }
                }
            }
            Layout::Q5_K => {
                for (part, values) in unit[64..].chunks_exact(544).zip(values.chunks_exact_mut(GROUP)) {
                    let scale = half_at(unit, lane) * f32::from(part[512 + lane]);
                    let min = half_at(&unit[32..], lane) * f32::from(part[528 + lane]);
                    lane_octets(part, lane, values, |code| f32::from(code) * scale - min);
                }
            }
            Layout::Q4_K => {
                for (part, values) in unit[64..].chunks_exact(288).zip(values.chunks_exact_mut(GROUP)) {
                    let scale = half_at(unit, lane) * f32::from(part[256 + lane]);
                    let min = half_at(&unit[32..], lane) * f32::from(part[272 + lane]);
                    lane_nibbles(part, lane, values, |code| f32::from(code) * scale - min);
                }
            }
            Layout::Q6_K => {
                for (part, values) in unit[32..].chunks_exact(272).zip(values.chunks_exact_mut(16)) {
                    let scale = half_at(unit, lane) * f32::from(part[256 + lane] as i8);
                    lane_octets(part, lane, values, |code| f32::from(code as i8) * scale);
                }
            }
            Layout::F32 | Layout::F16 | Layout::BF16 => values[0] = float_at(layout, unit, lane),
        }
    }
}

/// One lane's 32 packed codes.
#[inline(always)]
fn lane_nibbles(unit: &[u8], lane: usize, values: &mut [f32], value: impl Fn(u8) -> f32) {
    for (half, values) in values.chunks_exact_mut(16).enumerate() {
        half_nibbles(unit, lane, half, values, &value);
    }
}

/// Inputs 0..16 of one lane's 32 packed codes, or 16..32.
#[inline(always)]
fn half_nibbles(unit: &[u8], lane: usize, half: usize, values: &mut [f32], value: impl Fn(u8) -> f32) {
    for (index, to) in values.iter_mut().enumerate() {
        *to = value((unit[code_at(index, lane)] >> (half * 4)) & 15);
    }
}

/// One lane's codes of a byte each, as many as there are values.
#[inline(always)]
fn lane_octets(unit: &[u8], lane: usize, values: &mut [f32], value: impl Fn(u8) -> f32) {
    for (index, to) in values.iter_mut().enumerate() {
        *to = value(unit[code_at(index, lane)]);
    }
}
