//! Which instruction set the kernels use. The choice is made when the program runs: a build for
//! plain x86-64 or plain 64-bit ARM contains all of its family's. It does not depend on any kernel.

use std::sync::OnceLock;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::amx;

/// An instruction set that the kernels are compiled for. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust: the definition of every result.
    Portable,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX2 with the 256-bit dot products of VNNI: AVX-VNNI, or AVX-512's.
    AvxVnni,
    /// AVX-512 (F, BW, VL, DQ) with VNNI.
    Avx512,
    /// AVX-512, and AMX with products of bytes (Linux only).
    Amx,
    /// NEON, which every 64-bit ARM processor has.
    Neon,
    /// NEON with the dot products of ARMv8.2.
    NeonDot,
    /// NEON with the dot products of ARMv8.2 and the mixed-sign ones (i8mm) of ARMv8.6.
    NeonI8mm,
}

impl Isa {
    /// All instruction sets, the slowest of each family first.
    pub const ALL: [Isa; 8] = [
        Isa::Portable,
        Isa::Avx2,
        Isa::AvxVnni,
        Isa::Avx512,
        Isa::Amx,
        Isa::Neon,
        Isa::NeonDot,
        Isa::NeonI8mm,
    ];

    /// The fastest instruction set that this machine has, unless the environment variable
    /// `DOVETAIL_ISA` names another one that it has (`portable`, `avx2`, `avxvnni`, `avx512`,
    /// `amx`, `neon`, `neon-dot`, `neon-i8mm`).
    pub fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let named = std::env::var("DOVETAIL_ISA").ok().filter(|name| !name.is_empty());
            let named = named.and_then(|name| Isa::named(&name));
            named.or(Isa::here().next()).unwrap_or(Isa::Portable)
        })
    }

    /// Those that this machine has, the fastest first.
    pub fn here() -> impl Iterator<Item = Isa> {
        Isa::ALL.into_iter().rev().filter(|isa| isa.available())
    }

    /// The one with this name, if this machine has it.
    pub fn named(name: &str) -> Option<Isa> {
        Isa::here().find(|isa| isa.name() == name)
    }

    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        ["portable", "avx2", "avxvnni", "avx512", "amx", "neon", "neon-dot", "neon-i8mm"]
            [self as usize]
    }

    /// Whether this machine has it.
    pub fn available(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => {
                Isa::Avx512.available()
                    || Isa::Avx2.available() && is_x86_feature_detected!("avxvnni")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Isa::Amx => Isa::Avx512.available() && amx::multiplies(amx::Factor::Int8),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => true,
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => std::arch::is_aarch64_feature_detected!("dotprod"),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm => {
                Isa::NeonDot.available() && std::arch::is_aarch64_feature_detected!("i8mm")
            }
            // An instruction set of the other family.
            _ => false,
        }
    }
}
