#!/usr/bin/env bash
# Compares speculative with plain decoding, token for token, under random combinations of strategy,
# tree, sampler, precision, threads and context.
#
#   tests/scripts/lossless.sh [-n COMBINATIONS] [-s SEED] [-t TOKENS] PROGRAM MODEL [FLAG…]
#
# PROGRAM is a release build. Each draw answers one prompt with every strategy that can run with
# MODEL (`bundled`, a file, a folder, the name of a model), and each answer is one combination. The
# flags go to each draw, such as `--device gpu:0` or `--gpu-layers all`. A draw is a function of its
# seed alone, so `-n 1 -s SEED` repeats one that differs. Exits with 1 if any answer differs, or if
# a draw fails.
set -euo pipefail
combinations=1000 seed=1 tokens=48
while getopts n:s:t: option; do
  case $option in
    n) combinations=$OPTARG ;;
    s) seed=$OPTARG ;;
    t) tokens=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
program=${1:?the program} model=${2:?the model}
shift 2
sets=$(dirname "$0")/../../assets/bench
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# One of its arguments.
draw() {
  shift $((RANDOM % $#))
  drawn=$1
}

# A flag with one of the values that follow, or without one where that is `-`: the default.
flag() {
  draw "${@:2}"
  if [ "$drawn" != - ]; then flags+=("$1" "$drawn"); fi
}

# How often the last draw's results have this.
count() {
  { grep -o "$1" "$folder/out" || true; } | wc -l
}

# Prompts that fit into the smallest context.
awk 'length < 1400' "$sets"/{humaneval,gsm8k,instructions,mt_bench,edits}.jsonl >"$folder/all"

compared=0 differ=0 failed=0
for ((; compared < combinations; seed++)); do
  RANDOM=$seed
  sed -n "$((RANDOM % $(wc -l <"$folder/all") + 1))p" "$folder/all" >"$folder/prompt.jsonl"
  flags=(--seed "$RANDOM" --max-tokens $((RANDOM % tokens + 1)))
  flag --threads 1 2 3 4 7
  flag --kv f32 f16 q8
  flag --context 512 1024 2048 -
  flag --gamma - 1 2 3 5 8 16 33 64 128
  flag --width - - 1 2 3 5 10
  flag --depth - - 0 1 2 4 7
  flag --blocks - - 1 2 4
  flag --temperature 0 0 0.3 0.7 1 1.5 2
  flag --top-k - - 1 2 20 200
  flag --top-p - - 0.3 0.8 0.99
  flag --min-p - - 0.02 0.3
  flag --repetition-penalty - - - 0.8 1.1 1.5
  flag --presence-penalty - - - 0.5 -0.5
  flag --frequency-penalty - - - 0.2
  flag --prefer - show speed
  if ((RANDOM % 4 == 0)); then flags+=(--no-coupled); fi
  if ((RANDOM % 4 == 0)); then flags+=(--overlap); fi
  code=0
  "$program" bench --json --target "$model" --prompts "$folder/prompt.jsonl" "${flags[@]}" "$@" \
    >"$folder/out" 2>"$folder/said" || code=$?
  compared=$((compared + $(count '"differs_at":') - $(count '"strategy":"plain"')))
  wrong=$(count '"differs_at":[0-9]')
  differ=$((differ + wrong))
  if ((wrong > 0)); then
    printf 'seed %s: %s differ: %s\n' "$seed" "$wrong" "${flags[*]}"
    grep -A 20 'NOT LOSSLESS' "$folder/said" || true
  elif ((code != 0)); then
    failed=$((failed + 1))
    printf 'seed %s: exit code %s: %s\n' "$seed" "$code" "${flags[*]}"
    tail -n 3 "$folder/said"
    # A program that cannot start compares nothing, however often it is tried.
    if ((failed > 9 && compared == 0)); then break; fi
  fi
done
printf '%s combinations compared with plain decoding, %s differ, %s draws failed\n' \
  "$compared" "$differ" "$failed"
((differ == 0 && failed == 0 && compared > 0))
