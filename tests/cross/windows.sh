#!/usr/bin/env bash
# Builds the program for Windows and runs it under Wine: `doctor`, and the bundled pair's answers,
# which must be those recorded in tests/golden/answers.tsv. Needs the Rust target
# x86_64-pc-windows-gnu, Debian's gcc-mingw-w64-x86-64 and wine64, and some minutes to build.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=x86_64-pc-windows-gnu
cargo build --locked --target "$target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "${CARGO_TARGET_DIR:-target}/$target/debug/dovetail.exe" "$work"
# Rust's library takes random bytes from a DLL that Wine has only since version 9.
x86_64-w64-mingw32-gcc -shared -O2 -o "$work/bcryptprimitives.dll" \
  tests/cross/prng.c -ladvapi32
emulated() {
  env -i PATH="$PATH" HOME="$work" WINEPREFIX="$work/prefix" WINEDEBUG=-all \
    wine "$work/dovetail.exe" "$@"
}
emulated doctor --device cpu
wrong=0
for strategy in plain dovetail; do
  while IFS=$'\t' read -r temperature top_p seed tokens _ printed prompt; do
    got=$(emulated run "$prompt" --device cpu --strategy "$strategy" --temperature "$temperature" \
      --top-p "$top_p" --seed "$seed" --max-tokens "$tokens" </dev/null | sha256sum | cut -d' ' -f1)
    if [ "$got" = "$printed" ]; then verdict=same; else verdict=OTHER wrong=1; fi
    printf '%-9s T = %-4s %s  %s\n' "$strategy" "$temperature" "$verdict" "$prompt"
  done < <(grep -v '^#' tests/golden/answers.tsv)
done
exit "$wrong"
