//! Intel's Advanced Matrix Extensions (AMX): whether this process may use them, and the shapes of
//! their eight tile registers, which are called registers here because a tile is a packed group of
//! weight rows. It does not depend on any kernel.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

/// Rows of a register at most.
pub(super) const ROWS: usize = 16;

/// What AMX can multiply.
#[derive(Clone, Copy, Debug)]
pub(super) enum Factor {
    /// Pairs of bf16, with f32 sums.
    Bf16,
    /// Quadruples of bytes, with i32 sums.
    Int8,
}

/// Whether the processor has these products and the system lets this process use them.
pub(super) fn multiplies(factor: Factor) -> bool {
    static FEATURES: OnceLock<u32> = OnceLock::new();
    let features = *FEATURES.get_or_init(|| {
        // SAFETY: every x86-64 processor has the instruction.
        #[allow(unused_unsafe, reason = "it is safe in newer versions of Rust")]
        let features = unsafe { __cpuid_count(7, 0) }.edx;
        // AMX-TILE; then ARCH_REQ_XCOMP_PERM, with which Linux gives a process that asks the room
        // for its registers.
        // SAFETY: the call reads and writes no memory of this process.
        let permitted = features >> 24 & 1 == 1
            && unsafe { libc::syscall(libc::SYS_arch_prctl, 0x1023, 18) } == 0;
        if permitted { features } else { 0 }
    });
    let bit = match factor {
        Factor::Bf16 => 22,
        Factor::Int8 => 25,
    };
    features >> bit & 1 == 1
}

/// What `ldtilecfg` reads.
#[repr(align(64))]
pub(super) struct Shapes([u8; 64]);

impl Shapes {
    /// Rows of 64 bytes: `rows` of them in the first five registers (sums and activations), 16 in
    /// the other three.
    pub(super) const fn of(rows: usize) -> Self {
        let mut shapes = [0; 64];
        shapes[0] = 1;
        let mut register = 0;
        while register < 8 {
            shapes[16 + 2 * register] = 64;
            shapes[48 + register] = if register < 5 { rows as u8 } else { ROWS as u8 };
            register += 1;
        }
        Self(shapes)
    }

    /// The 64 bytes.
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    /// Gives this thread's registers these shapes, until [`release`].
    ///
    /// # Safety
    /// Some [`Factor`] can be multiplied, and there are 1 to 16 rows.
    pub(super) unsafe fn load(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "ldtilecfg [{}]",
                in(reg) self.as_ptr(),
                options(nostack, readonly, preserves_flags)
            );
        }
    }
}

/// Empties this thread's registers, so that the system no longer saves them.
///
/// # Safety
/// Some [`Factor`] can be multiplied.
pub(super) unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
}
