#!/usr/bin/env bash
# Runs the tests of kernels and targets on emulated 64-bit ARM processors, each named as qemu names
# it; with TEXTS=1 also those of draft heads and of whole texts, which take some minutes more. What
# takes minutes alone is left out (suite.sh has all of the texts). Needs the Rust target
# aarch64-unknown-linux-gnu, aarch64-linux-gnu-gcc and qemu-aarch64.
set -euo pipefail
cd "$(dirname "$0")"
target=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export QEMU_LD_PREFIX=${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu}
skipped=(--skip model::exact::a_tree_is_plain_decoding_in_every_format)
if [ "${TEXTS:-0}" = 1 ]; then
  skipped+=(
    --skip decode::lossless::recorded_generations_round_by_round
    --skip decode::lossless::recorded_models_under_every_sampler_and_changing_options
  )
else
  skipped+=(--skip decode:: --skip draft::)
fi
for processor in "${@:-max}"; do
  printf '\n-- %s\n' "$processor"
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu $processor" \
    cargo test --locked --target "$target" -- "${skipped[@]}"
done
