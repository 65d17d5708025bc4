#!/usr/bin/env bash
# Counts the instructions that a product of one row takes on 64-bit ARM, for an output and 256
# columns of its weights. Needs what arm.sh needs, and gcc for the emulator's plugin.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=tests/cross/arm.sh
. ./arm.sh
cargo build --release --locked --target "$target" --example product
program=${CARGO_TARGET_DIR:-target}/$target/release/examples/product
plugin=$(mktemp --suffix .so)
trap 'rm -f "$plugin"' EXIT
gcc -shared -fPIC -O2 -o "$plugin" count.c
executed() {
  DOVETAIL_ISA=$1 qemu-aarch64 -cpu max -plugin "$plugin" "$program" "$2" "$3" 2>&1
}
# The product is of 16 outputs and 4 times 256 columns.
for format in "${@:-Q4_K}"; do
  for isa in portable neon neon-dot neon-i8mm; do
    once=$(executed "$isa" "$format" 1)
    many=$(executed "$isa" "$format" 101)
    awk -v n=$((many - once)) -v format="$format" -v isa="$isa" \
      'BEGIN { printf "%-6s %-9s %.1f\n", format, isa, n / 100 / 16 / 4 }'
  done
done
