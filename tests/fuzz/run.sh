#!/usr/bin/env bash
# Runs every fuzz target, or the named ones, N times in a plain build: run.sh N [TARGET…]
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:?how often each target runs}
shift
[ $# -gt 0 ] || set -- $(basename -s .rs tests/fuzz/targets/*.rs)
[ -d tests/fuzz/corpus ] || bash tests/fuzz/seeds.sh
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
for target in "$@"; do
  echo "$target"
  cargo run --locked --release --package dovetail-fuzz --bin "$target" -- \
    -runs="$runs" -timeout=10 -rss_limit_mb=1024 -verbosity=0 "tests/fuzz/corpus/$target"
done
