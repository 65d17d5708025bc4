# What the scripts here that build for 64-bit ARM share: what cargo, the C compilers of its crates
# and the emulator have to know. Sourced; needs the Rust target aarch64-unknown-linux-gnu,
# aarch64-linux-gnu-gcc and qemu-aarch64.
# shellcheck shell=bash disable=SC2034
target=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export QEMU_LD_PREFIX=${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu}
