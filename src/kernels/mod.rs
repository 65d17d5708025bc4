//! The CPU's skinny matrix products and tree attention, packed weights, the compute pool, and the
//! choice of the instruction set. It must not depend on models.
//!
//! The attention mask of a pass is a [`TreeMask`] (a causal mask is the special case of a chain),
//! activations are quantised once into [`QuantizedRows`] for all products that read them, and
//! [`Roofline`] measures how fast the machine could be at best.
//!
//! One layer of a pass over m rows, in these calls:
//!
//! ```no_run
//! use dovetail::kernels::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::new(2);
//! let wq = Matrix::pack(Format::Q4K, 512, 256, &[0; 512 * 144], &pool)?;
//! let wk = Matrix::pack(Format::Q4K, 256, 256, &[0; 256 * 144], &pool)?;
//! let wv = Matrix::pack(Format::Q6K, 256, 256, &[0; 256 * 210], &pool)?;
//! let mut cache = KvCache::new(1, 4, 64, 1024, KvFormat::F16)?;
//!
//! let mask = TreeMask::tree([0, 0, 0]); // a root and two children: m = 3
//! let x = vec![0.5; 3 * 256];
//! let mut q = vec![0.0; 3 * 512];
//! let mut k = vec![0.0; 3 * 256];
//! let mut v = vec![0.0; 3 * 256];
//! let mut rows = QuantizedRows::new();
//! rows.prepare(&pool, &x, 256, [Format::Q4K, Format::Q6K]);
//! multiply(&pool, &rows, &mut [(&wq, &mut q), (&wk, &mut k), (&wv, &mut v)]);
//! let cos = vec![1.0; 3 * 32];
//! let sin = vec![0.0; 3 * 32];
//! rope(&pool, &mut q, 64, 64, &cos, &sin);
//! rope(&pool, &mut k, 64, 64, &cos, &sin);
//! cache.write(&pool, 0, &k, &v);
//! let mut out = vec![0.0; 3 * 512];
//! let options = AttentionOptions::default();
//! attention(&pool, std::slice::from_ref(&cache), 0, &q, &mask, &options, &mut out);
//! // … after all layers, keep the root and its second child:
//! cache.commit(&pool, &[0, 2]);
//! # Ok(()) }
//! ```
//!
//! Exactness: the bits that a function computes for a row do not depend on the other rows, on the
//! number of threads or on the instruction set ([`Isa`]). The operations of `lanes` ensure this:
//! they are exact on integers or round once (IEEE) on floats, in an order that is written once for
//! all instruction sets.
//!
//! All instructions that a product of one row executes on 64-bit ARM for one output and 256
//! columns. `tests/cross/count.sh` counts them on an emulator, so they say nothing about times. The
//! compiler turns the portable loops into NEON where it can.
//!
//! | | portable | NEON | with dot products | with i8mm |
//! |---|---|---|---|---|
//! | Q4_0 | 549 | 160 | 87 | 87 |
//! | Q4_K | 411 | 163 | 91 | 91 |
//! | Q6_K | 747 | 205 | 140 | 140 |
//! | Q8_0 | 420 | 179 | 95 | 79 |
//! | BF16 | 240 | 240 | 240 | 240 |

// Packed weights, vector instructions and threads that share a buffer need unsafe code; every block
// says why it is sound.
#![allow(unsafe_code)]

/// The version of what kernels and targets compute, bit for bit: KV caches on the disk are read
/// only by the version that wrote them. Raise it if `the_numbers_are_those_of_their_version` fails
/// for a good reason.
pub const NUMERICS: u32 = 1;

mod aligned;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
mod apart;
mod attention;
mod bf16_product;
mod block;
mod cache;
mod cache_layout;
mod cache_planes;
mod cache_slots;
mod codes32;
mod cross_entropy;
mod expand;
mod format;
mod isa;
mod kv_format;
mod lanes;
mod logits;
mod math;
mod matrix;
mod pages;
mod pool;
mod product;
mod quantized_rows;
mod random;
mod recurrence;
mod recurrent;
mod roofline;
mod rowwise;
mod saved_cache;
mod share;
#[cfg(unix)]
mod slab;
mod tile;
mod tree_mask;
mod turns;

pub use aligned::AlignedFloats;
pub use apart::Apart;
pub use attention::{AttentionOptions, attention};
pub use bf16_product::{Strided, bf16_product, multiplies_bf16};
pub use block::BlockCodes;
pub use cache::KvCache;
pub use cross_entropy::{RowLoss, softmax, softmax_less};
pub use format::{Format, Storage};
pub use isa::Isa;
pub use kv_format::{KvFormat, KvShape};
pub use logits::{GOLDEN, Peaks, log_sum_exp, maxima, mix, peaks, sum_exp, token_bits};

pub(crate) use matrix::checked_row;
pub use matrix::{Matrix, PackError, expand_row};
pub use pages::OutOfMemory;
pub use pool::Pool;
pub use product::multiply;
pub use quantized_rows::QuantizedRows;
pub use random::row as random_row;
pub use recurrence::{RecurrentShape, StateKind, StateWeights};
pub use roofline::Roofline;
pub use rowwise::{
    Activation, activate, add, gated, layer_norm, rms_norm, rope, sigmoid_blend, sigmoid_gate,
    softcap,
};
pub use tile::LAYOUT_VERSION;
pub use tree_mask::TreeMask;
