//! Weights repacked for the vector units of this CPU, and the arithmetic on them.
//!
//! Five families of kernels (AVX-512 with VNNI, AVX2 with and without VNNI, NEON, plain Rust) are chosen at run time and
//! give the same bits: products of quantized weights add up in integers, and floats are fused and added in one written
//! order, 16 lanes at a time, whatever the width of the registers, the number of rows or of threads.

// Loops over lanes read best with the lane's number.
#![allow(clippy::needless_range_loop)]

mod activation;
mod ahead;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod buffer;
mod kv;
mod layout;
mod matmul;
mod matrix;
#[cfg(target_arch = "aarch64")]
mod neon;
mod panels;
mod reading;
mod repack;
mod simd;
mod vector;

use std::fmt;
use std::str::FromStr;

pub use activation::ActGroup;
pub use ahead::Ahead;
pub use attention::{AttentionShape, Code, Half, KvLayer, KvPages, Scratch as AttentionScratch, TOKENS};
pub use buffer::{Buffer, OutOfMemory};
pub use kv::{KvCache, KvType, KvWriter, Slot, UnknownKvType};
pub use layout::{GROUP, Layout, PANEL, SUPPORTED_TYPES};
pub use matmul::{Activations, Gated, Part};
pub use matrix::{MakeRows, Matrix, MatrixError, Plan};
pub use reading::read_through;

pub use vector::CodeScale;

pub use super::pool::{Pool, WorkerPanicked};
use activation::RowOut;
use panels::Job;

/// The environment variable that names the kernels to use.
pub const KERNELS_VARIABLE: &str = "BATCHROOM_KERNELS";

/// A family of kernels. All of them compute the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelKind {
    /// AVX-512 F, BW, VL and VNNI.
    Avx512Vnni,
    /// AVX2, FMA, F16C and AVX-VNNI.
    AvxVnni,
    /// AVX2, FMA and F16C.
    Avx2,
    /// What every 64-bit Arm CPU has.
    Neon,
    /// Plain Rust, for any machine.
    Portable,
}

impl KernelKind {
    /// Fastest first.
    pub const ALL: [KernelKind; 5] =
        [KernelKind::Avx512Vnni, KernelKind::AvxVnni, KernelKind::Avx2, KernelKind::Neon, KernelKind::Portable];

    pub fn name(self) -> &'static str {
        match self {
            KernelKind::Avx512Vnni => "avx512-vnni",
            KernelKind::AvxVnni => "avx-vnni",
            KernelKind::Avx2 => "avx2",
            KernelKind::Neon => "neon",
            KernelKind::Portable => "portable",
        }
    }

    /// Whether this machine can run them.
    pub fn available(self) -> bool {
        match self {
            KernelKind::Portable => true,
            #[cfg(target_arch = "x86_64")]
            KernelKind::Avx2 => has_avx2(),
            #[cfg(target_arch = "x86_64")]
            KernelKind::AvxVnni => has_avx2() && is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            KernelKind::Avx512Vnni => {
                has_avx2()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            // Words in memory are taken for vectors as they are: of the first byte lowest.
            #[cfg(target_arch = "aarch64")]
            KernelKind::Neon => cfg!(target_endian = "little") && std::arch::is_aarch64_feature_detected!("neon"),
            _ => false,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

impl fmt::Display for KernelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A family that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    #[error(
        "there are no kernels named \"{0}\": choose one of avx512, avx-vnni, avx2, neon, portable, or leave the choice to the program"
    )]
    Unknown(String),
    #[error("this CPU cannot run the {0} kernels: choose another, or leave the choice to the program")]
    Unavailable(KernelKind),
}

impl FromStr for KernelKind {
    type Err = KernelError;

    fn from_str(text: &str) -> Result<KernelKind, KernelError> {
        match text {
            "avx512" | "avx512-vnni" => Ok(KernelKind::Avx512Vnni),
            "avx-vnni" | "avxvnni" => Ok(KernelKind::AvxVnni),
            "avx2" => Ok(KernelKind::Avx2),
            "neon" => Ok(KernelKind::Neon),
            "portable" => Ok(KernelKind::Portable),
            _ => Err(KernelError::Unknown(text.to_owned())),
        }
    }
}

/// Kernels that this machine can run: having one proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernels(KernelKind);

impl Kernels {
    /// The family asked for; else the one that `BATCHROOM_KERNELS` names; else the fastest.
    ///
    /// # Errors
    /// When the family is not known or this machine cannot run it.
    pub fn select(wanted: Option<KernelKind>) -> Result<Kernels, KernelError> {
        let named = match (wanted, std::env::var(KERNELS_VARIABLE)) {
            (Some(kind), _) => Some(kind),
            (None, Ok(name)) if !name.is_empty() => Some(name.parse()?),
            _ => None,
        };
        match named {
            Some(kind) if kind.available() => Ok(Kernels(kind)),
            Some(kind) => Err(KernelError::Unavailable(kind)),
            None => Ok(Kernels::fastest()),
        }
    }

    /// The fastest family that this machine can run.
    pub fn fastest() -> Kernels {
        let available = KernelKind::ALL.into_iter().find(|kind| kind.available());
        Kernels(available.unwrap_or(KernelKind::Portable))
    }

    pub fn kind(self) -> KernelKind {
        self.0
    }

    /// Quantizes one row of whole groups of 32.
    ///
    /// # Panics
    /// When `out` has fewer groups than `x`.
    pub fn quantize(self, x: &[f32], out: &mut [ActGroup]) {
        self.quantize_row(x, RowOut::of(out));
    }

    /// RMSNorm of one row of whole groups of 32, quantized on the way.
    ///
    /// # Panics
    /// When `out` has fewer groups than `x`.
    pub fn rms_norm_quantize(self, x: &[f32], weight: &[f32], eps: f32, out: &mut [ActGroup]) {
        self.rms_norm_quantize_row(x, weight, eps, RowOut::of(out));
    }

    /// # Safety
    /// `job.out` is good for the job's rows and columns, and nobody else uses them meanwhile.
    unsafe fn panels(self, job: &Job<'_>) {
        // SAFETY: a value of `Kernels` proves that the CPU has the features; the rest is the caller's.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                KernelKind::Avx512Vnni => avx512::run(job),
                #[cfg(target_arch = "x86_64")]
                KernelKind::AvxVnni => avx2::run::<true>(job),
                #[cfg(target_arch = "x86_64")]
                KernelKind::Avx2 => avx2::run::<false>(job),
                #[cfg(target_arch = "aarch64")]
                KernelKind::Neon => neon::run(job),
                _ => panels::run_portable(job),
            }
        }
    }
}

/// Defines methods of [`Kernels`] whose body is one piece of portable code, compiled once for each family.
macro_rules! for_each_family {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $kind:ty),* $(,)?) = $($body:ident)::+, $simd:ident;)*) => {
        impl Kernels {
            $($(#[$doc])*
            #[allow(clippy::too_many_arguments)]
            $vis fn $name(self, $($arg: $kind),*) {
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2($($arg: $kind),*) {
                    for_each_family!(@call $simd, ($($body)::+), simd::x86::Avx2, $($arg),*)
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
                fn avx512($($arg: $kind),*) {
                    for_each_family!(@call $simd, ($($body)::+), simd::x86::Avx512, $($arg),*)
                }
                match self.0 {
                    // SAFETY: a value of `Kernels` proves that the CPU has the features.
                    #[cfg(target_arch = "x86_64")]
                    KernelKind::Avx512Vnni => unsafe { avx512($($arg),*) },
                    // SAFETY: the same.
                    #[cfg(target_arch = "x86_64")]
                    KernelKind::AvxVnni | KernelKind::Avx2 => unsafe { avx2($($arg),*) },
                    // No function of its own: NEON is on everywhere.
                    #[cfg(target_arch = "aarch64")]
                    KernelKind::Neon => for_each_family!(@call $simd, ($($body)::+), simd::arm::Neon, $($arg),*),
                    _ => for_each_family!(@call $simd, ($($body)::+), simd::Plain, $($arg),*),
                }
            })*
        }
    };
    (@call plain, ($($body:ident)::+), $family:path, $($arg:ident),*) => { $($body)::+($($arg),*) };
    // SAFETY: the family's features are enabled in the function around.
    (@call simd, ($($body:ident)::+), $family:path, $($arg:ident),*) => { unsafe { $($body)::+::<$family>($($arg),*) } };
}

for_each_family! {
    /// RMSNorm of one row: `x / sqrt(mean(x^2) + eps) * weight`.
    pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) = vector::rms_norm, plain;
    /// RMSNorm of one row of whole groups of 32, quantized on the way.
    fn rms_norm_quantize_row(x: &[f32], weight: &[f32], eps: f32, out: RowOut<'_>) = vector::rms_norm_quantize, plain;
    /// Quantizes one row of whole groups of 32.
    fn quantize_row(x: &[f32], out: RowOut<'_>) = vector::quantize, plain;
    /// `gate = silu(gate) * up`, element by element.
    pub fn silu_mul_in_place(gate: &mut [f32], up: &[f32]) = vector::silu_mul, plain;
    /// Rotates neighbouring pairs by the angles given as cosines and sines, then multiplies all by `factor`.
    pub fn rotate(x: &mut [f32], cos: &[f32], sin: &[f32], factor: f32) = vector::rotate, plain;
    /// e to the x, element by element, in place.
    pub fn exp(x: &mut [f32]) = vector::exp_all, plain;
    /// Halves, rounded to the nearest; what a half cannot hold becomes the largest that it can.
    pub fn to_halves(x: &[f32], out: &mut [u16]) = vector::to_halves, simd;
    /// The scale of a vector's 8-bit codes: its largest magnitude / 127; a NaN when there is an infinity or a NaN in it.
    pub fn code_scale(x: &[f32], scale: &mut CodeScale) = vector::code_scale, plain;
    /// 8-bit codes, rounded to the nearest, ties to even. `scale` is that of a vector of which `x` is a part.
    pub fn to_codes(x: &[f32], scale: CodeScale, out: &mut [i8]) = vector::to_codes, plain;
    /// The heads of one KV head's group, for a few tokens that follow one another: softmax(q K) V over positions `0..count`
    /// for the first, one more for each other.
    pub fn attend(shape: &AttentionShape, kv: &KvLayer<'_>, table: &[crate::batch::BlockId], head: usize, tokens: usize, count: usize,
        queries: &[f32], scratch: &mut AttentionScratch, out: &mut [f32]) = attention::attend, simd;
}
