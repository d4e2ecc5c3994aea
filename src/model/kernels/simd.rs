//! 16 floats at a time, one implementation per kernel family, so that float matrices and attention are written once.
//!
//! The same operations in the same order in every family give the same bits.

use half::{bf16, f16};

use super::vector::{LANES, Lanes};

/// 16 floats.
///
/// # Safety
/// Every method needs the CPU features of its family, and must be inlined into a function that has them enabled;
/// pointers must be good for 16 values of their kind, at any alignment.
pub(super) trait Simd: Copy {
    /// Rows of activations that a float tile can hold in registers.
    const FLOAT_TILE: usize;
    /// Sums of attention that go on abreast at most.
    const SUMS: usize;
    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn load_f16(from: *const u16) -> Self;
    unsafe fn load_bf16(from: *const u16) -> Self;
    unsafe fn load_i8(from: *const i8) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Stores halves, rounded to the nearest, ties to even.
    unsafe fn store_f16(self, to: *mut u16);
    /// Calls the cache line at an address in, if the family can; the address need not be valid.
    unsafe fn call_in(at: *const u8);
    unsafe fn add(self, other: Self) -> Self;
    /// `self * factor + sum`, rounded once.
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self;
}

/// Calls the cache line at an address in, if the machine can; the address need not be valid.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program sees; any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    arm::prefetch(at);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Plain Rust.
#[derive(Clone, Copy)]
pub(super) struct Plain(Lanes);

// SAFETY of the methods: reads and writes stay inside the 16 values that the caller vouches for.
impl Simd for Plain {
    const FLOAT_TILE: usize = 4;
    const SUMS: usize = 16;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Plain([value; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Plain(unsafe { from.cast::<Lanes>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        let bits = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        Plain(bits.map(|bits| f16::from_bits(u16::from_le(bits)).to_f32_const()))
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        let bits = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        Plain(bits.map(|bits| bf16::from_bits(u16::from_le(bits)).to_f32_const()))
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        Plain(unsafe { from.cast::<[i8; LANES]>().read_unaligned() }.map(f32::from))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<Lanes>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        let bits = self.0.map(|value| f16::from_f32_const(value).to_bits().to_le());
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(bits) }
    }

    #[inline(always)]
    unsafe fn call_in(_: *const u8) {}

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Plain(std::array::from_fn(|lane| self.0[lane] + other.0[lane]))
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
        Plain(std::array::from_fn(|lane| self.0[lane].mul_add(factor.0[lane], sum.0[lane])))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use std::arch::x86_64::*;

    use super::Simd;

    /// AVX2, FMA and F16C: two halves of eight.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(__m256, __m256);

    // SAFETY of the methods: the trait's contract is the intrinsics' one.
    impl Simd for Avx2 {
        const FLOAT_TILE: usize = 3;
        const SUMS: usize = 16;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { Avx2(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Avx2(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
        }

        #[inline(always)]
        unsafe fn load_f16(from: *const u16) -> Self {
            unsafe { Avx2(_mm256_cvtph_ps(_mm_loadu_si128(from.cast())), _mm256_cvtph_ps(_mm_loadu_si128(from.add(8).cast()))) }
        }

        #[inline(always)]
        unsafe fn load_bf16(from: *const u16) -> Self {
            unsafe {
                let wide = |from: *const u16| {
                    let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
                };
                Avx2(wide(from), wide(from.add(8)))
            }
        }

        #[inline(always)]
        unsafe fn load_i8(from: *const i8) -> Self {
            unsafe {
                let wide = |from: *const i8| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast())));
                Avx2(wide(from), wide(from.add(8)))
            }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe {
                _mm256_storeu_ps(to, self.0);
                _mm256_storeu_ps(to.add(8), self.1);
            }
        }

        #[inline(always)]
        unsafe fn store_f16(self, to: *mut u16) {
            unsafe {
                _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(self.0));
                _mm_storeu_si128(to.add(8).cast(), _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(self.1));
            }
        }

        #[inline(always)]
        unsafe fn call_in(at: *const u8) {
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { Avx2(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1)) }
        }

        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
            unsafe { Avx2(_mm256_fmadd_ps(self.0, factor.0, sum.0), _mm256_fmadd_ps(self.1, factor.1, sum.1)) }
        }
    }

    /// AVX-512F.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512(__m512);

    // SAFETY of the methods: the trait's contract is the intrinsics' one.
    impl Simd for Avx512 {
        const FLOAT_TILE: usize = 8;
        const SUMS: usize = 16;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { Avx512(_mm512_set1_ps(value)) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Avx512(_mm512_loadu_ps(from)) }
        }

        #[inline(always)]
        unsafe fn load_f16(from: *const u16) -> Self {
            unsafe { Avx512(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))) }
        }

        #[inline(always)]
        unsafe fn load_bf16(from: *const u16) -> Self {
            unsafe {
                let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
                Avx512(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)))
            }
        }

        #[inline(always)]
        unsafe fn load_i8(from: *const i8) -> Self {
            unsafe { Avx512(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast())))) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        unsafe fn store_f16(self, to: *mut u16) {
            unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(self.0)) }
        }

        #[inline(always)]
        unsafe fn call_in(at: *const u8) {
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { Avx512(_mm512_add_ps(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
            unsafe { Avx512(_mm512_fmadd_ps(self.0, factor.0, sum.0)) }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    use std::arch::aarch64::*;
    use std::arch::asm;

    use super::Simd;

    /// NEON: four quarters of four.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Neon(pub [float32x4_t; 4]);

    /// Calls a cache line in.
    #[inline(always)]
    pub(in super::super) fn prefetch(at: *const u8) {
        // SAFETY: a prefetch reads nothing that the program sees; any address will do.
        unsafe { asm!("prfm pldl1keep, [{at}]", at = in(reg) at.addr(), options(nomem, nostack, preserves_flags)) }
    }

    /// Eight halves as floats. The intrinsics for halves came after the oldest compiler that will do here.
    #[inline(always)]
    pub(in super::super) fn widen(halves: uint16x8_t) -> [float32x4_t; 2] {
        let (low, high);
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!("fcvtl {to:v}.4s, {from:v}.4h", to = lateout(vreg) low, from = in(vreg) halves,
                options(pure, nomem, nostack, preserves_flags));
            asm!("fcvtl2 {to:v}.4s, {from:v}.8h", to = lateout(vreg) high, from = in(vreg) halves,
                options(pure, nomem, nostack, preserves_flags));
        }
        [low, high]
    }

    /// Eight floats as halves, rounded to the nearest, ties to even: the mode in which a program starts.
    #[inline(always)]
    fn narrow(low: float32x4_t, high: float32x4_t) -> uint16x8_t {
        let halves;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!("fcvtn {to:v}.4h, {low:v}.4s", "fcvtn2 {to:v}.8h, {high:v}.4s",
                to = out(vreg) halves, low = in(vreg) low, high = in(vreg) high,
                options(pure, nomem, nostack, preserves_flags));
        }
        halves
    }

    // SAFETY of the methods: the trait's contract is the intrinsics' one.
    impl Simd for Neon {
        const FLOAT_TILE: usize = 2;
        const SUMS: usize = 6;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { Neon([vdupq_n_f32(value); 4]) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Neon([vld1q_f32(from), vld1q_f32(from.add(4)), vld1q_f32(from.add(8)), vld1q_f32(from.add(12))]) }
        }

        #[inline(always)]
        unsafe fn load_f16(from: *const u16) -> Self {
            let ([a, b], [c, d]) = unsafe { (widen(vld1q_u16(from)), widen(vld1q_u16(from.add(8)))) };
            Neon([a, b, c, d])
        }

        #[inline(always)]
        unsafe fn load_bf16(from: *const u16) -> Self {
            unsafe {
                let (low, high) = (vld1q_u16(from), vld1q_u16(from.add(8)));
                let wide = |bits: uint16x8_t| [vshll_n_u16::<16>(vget_low_u16(bits)), vshll_high_n_u16::<16>(bits)];
                let ([a, b], [c, d]) = (wide(low), wide(high));
                Neon([a, b, c, d].map(|bits| vreinterpretq_f32_u32(bits)))
            }
        }

        #[inline(always)]
        unsafe fn load_i8(from: *const i8) -> Self {
            unsafe {
                let bytes = vld1q_s8(from);
                let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
                let floats =
                    |words: int16x8_t| [vcvtq_f32_s32(vmovl_s16(vget_low_s16(words))), vcvtq_f32_s32(vmovl_high_s16(words))];
                let ([a, b], [c, d]) = (floats(low), floats(high));
                Neon([a, b, c, d])
            }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe {
                for (index, quarter) in self.0.into_iter().enumerate() {
                    vst1q_f32(to.add(index * 4), quarter);
                }
            }
        }

        #[inline(always)]
        unsafe fn store_f16(self, to: *mut u16) {
            let [a, b, c, d] = self.0;
            unsafe {
                vst1q_u16(to, narrow(a, b));
                vst1q_u16(to.add(8), narrow(c, d));
            }
        }

        #[inline(always)]
        unsafe fn call_in(at: *const u8) {
            prefetch(at);
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
            unsafe { Neon([vaddq_f32(a, e), vaddq_f32(b, f), vaddq_f32(c, g), vaddq_f32(d, h)]) }
        }

        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
            let fused = |index: usize| unsafe { vfmaq_f32(sum.0[index], self.0[index], factor.0[index]) };
            Neon([fused(0), fused(1), fused(2), fused(3)])
        }
    }
}
