#!/usr/bin/env bash
# Builds the program's own tests for 64-bit ARM and runs those that say what ARM might break on
# emulated processors, each named as qemu names it: the unit tests, and of the suite what decodes.
# Needs what arm.sh needs, and some minutes to build.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cross/arm.sh
. tests/cross/arm.sh
unseen=(
  # They start their own program again, which a kernel runs that knows the emulator, no other.
  --skip tui::run::tests::a_panic_of_the_screen_gives_the_terminal_back_and_saves
  --skip tui::run::tests::a_panic_of_the_worker_leaves_the_screen_alone_and_is_reported
  --skip tui::run::tests::a_model_that_is_truncated_while_it_is_read_ends_the_chat_in_order
  --skip tui::view::tests::memory::three_hundred_turns_take_little_more_than_what_is_said
  # What they measure, or compare with ten seconds, is the emulator's speed.
  --skip chat::jinja::tests::endless_work_is_cut_off
  --skip chat::jinja::tests::texts_that_double_are_cut_off
  --skip kernels::roofline::tests::bandwidth_and_arithmetic_rate_are_measured
)
# The golden vectors of draft heads, and the texts of all strategies, which are those of `plain`.
tests=(draft:: decode::lossless worker::strategies)
for processor in "${@:-max}"; do
  printf '\n-- %s\n' "$processor"
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu $processor"
  cargo test --locked --target "$target" --lib -- "${unseen[@]}"
  cargo test --locked --target "$target" --test suite -- "${tests[@]}"
done
