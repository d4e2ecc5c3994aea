//! From a file's rows to interleaved panels, and back to single rows.

use half::{bf16, f16};

use super::layout::{GROUP, Layout, PANEL, QUAD_ORDER};

/// Writes 16 rows (fewer in a last panel) as one panel.
///
/// `rows` holds whole rows as the file has them, each `rows.len() / count` bytes; `panel` is zeroed and has the
/// panel's size. The caller has checked both.
pub(super) fn repack_panel(layout: Layout, rows: &[u8], count: usize, panel: &mut [u8]) {
    let row_bytes = rows.len() / count;
    for (lane, row) in rows.chunks_exact(row_bytes).enumerate() {
        let block_bytes = layout.ggml_type().block_bytes();
        for (block, unit) in row.chunks_exact(block_bytes).zip(panel.chunks_exact_mut(layout.unit_bytes())) {
            match layout {
                Layout::Q4_0 => put_q4(block, 2, 0x88, lane, unit),
                Layout::Q4_1 => put_q4(block, 4, 0, lane, unit),
                Layout::Q8_0 => put_q8(block, lane, unit),
                Layout::Q4_K => put_q4_k(block, lane, unit),
                Layout::Q6_K => put_q6_k(block, lane, unit),
                Layout::F32 => unit[lane * 4..][..4].copy_from_slice(block),
                Layout::F16 | Layout::BF16 => unit[lane * 2..][..2].copy_from_slice(block),
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
    /// To be added to each weight after scaling; zero where the type has none.
    pub mins: [f32; PANEL],
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
        Layout::Q4_0 => {
            let scale = halves(&unit[256..]);
            Group { codes: signed_nibbles(unit), scales: [scale, scale], mins: [0.0; PANEL] }
        }
        Layout::Q4_1 => {
            let scale = halves(&unit[256..]);
            Group { codes: nibbles(unit), scales: [scale, scale], mins: halves(&unit[288..]) }
        }
        Layout::Q8_0 => {
            let scale = halves(&unit[512..]);
            Group { codes: octets(&unit[..256], &unit[256..]), scales: [scale, scale], mins: [0.0; PANEL] }
        }
        Layout::Q4_K => {
            let (d, dmin) = (halves(unit), halves(&unit[32..]));
            let part = &unit[64 + inner * 288..][..288];
            let scale = std::array::from_fn(|lane| d[lane] * f32::from(part[256 + lane]));
            let mins = std::array::from_fn(|lane| -(dmin[lane] * f32::from(part[272 + lane])));
            Group { codes: nibbles(part), scales: [scale, scale], mins }
        }
        Layout::Q6_K => {
            let d = halves(unit);
            let (first, second) = unit[32 + inner * 544..][..544].split_at(272);
            let scale = |part: &[u8]| std::array::from_fn(|lane| d[lane] * f32::from(part[256 + lane] as i8));
            Group { codes: octets(first, second), scales: [scale(first), scale(second)], mins: [0.0; PANEL] }
        }
        Layout::F32 | Layout::F16 | Layout::BF16 => unreachable!("float layouts have no groups"),
    }
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
    let (low, high) = values.split_at_mut(16);
    for index in 0..16 {
        let both = unit[code_at(index, lane)];
        low[index] = value(both & 15);
        high[index] = value(both >> 4);
    }
}

/// One lane's codes of a byte each, as many as there are values.
#[inline(always)]
fn lane_octets(unit: &[u8], lane: usize, values: &mut [f32], value: impl Fn(u8) -> f32) {
    for (index, to) in values.iter_mut().enumerate() {
        *to = value(unit[code_at(index, lane)]);
    }
}
