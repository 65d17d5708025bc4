#!/usr/bin/env bash
# Builds the program's own tests for 64-bit ARM and runs those that say what ARM might break on
# emulated processors, each named as qemu names it: the unit tests, and of the suite what decodes.
# Needs what arm.sh needs, and some minutes to build.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cross/arm.sh
. tests/cross/arm.sh
# The golden vectors of draft heads, and the texts of all strategies, which are those of `plain`.
tests=(draft:: decode::lossless worker::strategies)
for processor in "${@:-max}"; do
  printf '\n-- %s\n' "$processor"
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu $processor"
  cargo test --locked --target "$target" --lib
  cargo test --locked --target "$target" --test suite -- "${tests[@]}"
done
