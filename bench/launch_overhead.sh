#!/usr/bin/env bash
# Wall time to start ranks that do nothing and to collect them: Cairn's launcher
# beside torchrun's and DeepSpeed's, alternating in one run.
#
#   bench/launch_overhead.sh [--ranks 2] [--rounds 5] [--peers VENV]
#
# VENV is a Python environment with torch and deepspeed. Prints one line per
# launcher, the median of the rounds, and its ratio to Cairn's.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/setup.sh"
ranks=2 rounds=5 peers=
while (($#)); do
  case $1 in
    --ranks) ranks=$2 ;;
    --rounds) rounds=$2 ;;
    --peers) peers=$2 ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The least a rank of each kind of program does: nothing.
printf '#!/bin/sh\nexit 0\n' >"$work/nothing.sh"
chmod +x "$work/nothing.sh"
echo pass >"$work/nothing.py"

declare -A command=([cairn]="$CAIRN_BUILD_DIR/bin/cairn launch --num_gpus $ranks $work/nothing.sh")
names=(cairn)
if [[ $peers ]]; then
  command[torchrun]="$peers/bin/torchrun --nproc_per_node $ranks --no-python $work/nothing.sh"
  command[deepspeed]="$peers/bin/deepspeed --num_gpus $ranks --no_python --no_local_rank $work/nothing.sh"
  names+=(torchrun deepspeed)
fi

for ((round = 0; round <= rounds; round++)); do # round 0 warms the file cache
  for name in "${names[@]}"; do
    start=$(date +%s%N)
    PATH=${peers:+$peers/bin:}$PATH ${command[$name]} >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    ((round == 0)) || echo $((($(date +%s%N) - start) / 1000000)) >>"$work/$name"
  done
done

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
base=$(median "$work/cairn")
for name in "${names[@]}"; do
  ms=$(median "$work/$name")
  awk -v n="$name" -v ms="$ms" -v base="$base" -v r="$ranks" \
    'BEGIN { printf "%-10s %6d ms for %d ranks   %.1f x cairn\n", n, ms, r, ms / (base ? base : 1) }'
done
