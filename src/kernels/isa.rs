//! Which instruction set the kernels use, chosen when the program runs: a build for plain x86-64
//! holds all of them. Knows no kernel.

use std::sync::OnceLock;

/// An instruction set that the kernels are compiled for. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust: the definition of every result.
    Portable,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 (F, BW, VL, DQ) with VNNI.
    Avx512,
}

impl Isa {
    /// All of them, slowest first.
    pub const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

    /// The fastest one that this machine has, or the one that the environment variable
    /// `DOVETAIL_ISA` names (`portable`, `avx2`, `avx512`) if the machine has it.
    pub fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let named = std::env::var("DOVETAIL_ISA").ok();
            let named = Isa::ALL.into_iter().find(|isa| named.as_deref() == Some(isa.name()));
            let fastest = Isa::ALL.into_iter().rev().find(|isa| isa.available());
            named.filter(|isa| isa.available()).or(fastest).unwrap_or(Isa::Portable)
        })
    }

    /// Lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
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
            Isa::Avx512 => {
                Isa::Avx2.available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}
