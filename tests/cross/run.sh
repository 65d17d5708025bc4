#!/usr/bin/env bash
# Runs the tests of kernels and targets on emulated 64-bit ARM processors, each named as qemu names
# it; with TEXTS=1 also those of draft heads and of whole texts, which take some minutes more. What
# takes minutes alone is left out (suite.sh has all of the texts). Only kernels ask for a
# processor's instructions: after the first processor, only the tests of kernels and of the targets
# that they serve run, without the longest. Needs what arm.sh needs.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=tests/cross/arm.sh
. ./arm.sh
# Files are the system's business, not the processor's.
skipped=(--skip model::exact::a_tree_is_plain_decoding_in_every_format --skip files::)
if [ "${TEXTS:-0}" = 1 ]; then
  skipped+=(
    --skip decode::lossless::recorded_generations_round_by_round
    --skip decode::lossless::recorded_models_under_every_sampler_and_changing_options
  )
else
  skipped+=(--skip decode:: --skip draft::)
fi
chosen=()
for processor in "${@:-max}"; do
  printf '\n-- %s\n' "$processor"
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu $processor" \
    cargo test --locked --target "$target" --lib -- "${skipped[@]}" "${chosen[@]}"
  chosen=(
    kernels:: model:: decode:: draft::
    # Minutes each, of kernels that were compared with all others by then.
    --skip model::branches::a_tree_of_128_nodes_is_plain_decoding
    --skip model::exact::long_texts_agree_with_and_without_trees
  )
done
