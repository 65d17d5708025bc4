#!/usr/bin/env bash
# Builds the program for 64-bit ARM and lets the bundled pair answer on emulated processors, each
# named as qemu names it: every text must be the one recorded in tests/golden/answers.tsv for all
# processors, with and without a draft. Needs what arm.sh needs, and some minutes to build.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cross/arm.sh
. tests/cross/arm.sh
cargo build --locked --target "$target"
program=${CARGO_TARGET_DIR:-target}/$target/debug/dovetail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
wrong=0
# Without anybody's settings; what is emulated has no GPU.
emulated() {
  env -i PATH="$PATH" HOME="$home" QEMU_LD_PREFIX="$QEMU_LD_PREFIX" \
    qemu-aarch64 -cpu "$@"
}
for processor in "${@:-max}"; do
  found=$(emulated "$processor" "$program" doctor --device cpu)
  grep -m1 ' features ' <<<"$found"
  for strategy in plain dovetail; do
    while IFS=$'\t' read -r temperature top_p seed tokens _ printed prompt; do
      got=$(emulated "$processor" "$program" run "$prompt" --device cpu --strategy "$strategy" \
        --temperature "$temperature" --top-p "$top_p" --seed "$seed" --max-tokens "$tokens" \
        --threads 2 </dev/null | sha256sum | cut -d' ' -f1)
      if [ "$got" = "$printed" ]; then verdict=same; else verdict=OTHER wrong=1; fi
      printf '%-11s %-9s T = %-4s %s  %s\n' \
        "$processor" "$strategy" "$temperature" "$verdict" "$prompt"
    done < <(grep -v '^#' tests/golden/answers.tsv)
  done
done
exit "$wrong"
