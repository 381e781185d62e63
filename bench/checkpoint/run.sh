#!/usr/bin/env bash
# Checkpoints of GPT-2 124M with Adam's states (1.5 GB) beside the peers and the
# disk itself, in one run: saving to new files with fsync, loading from the page
# cache and from the disk. Prints Markdown tables with ratios; the raw lines go
# to BUILD/bench-checkpoint.
#
#   PEERS=… PEERS_HOME=… bench/checkpoint/run.sh [--quick] [--rounds N] [--build DIR] [CASE…]
#
# PEERS       the folder of the peers' harness: run.sh there takes --extra FILE
# PEERS_HOME  what its setup.sh made: venv with torch and safetensors; files are
#             written to data/ there, so it decides which disk is measured
# --quick     one save and one load each: does everything work?
# --rounds    the whole list so many times (default 1), joined by the median
# --build     build folder (default build/bench, configured if it is not there)
# CASE        checkpoint/save, checkpoint/load, checkpoint/load-cold (default: all)
#
# Run it on a quiet machine: the column "others" tells. The whole takes about 10
# minutes, 5 GB of disk and 4 GB of memory.
groups=(checkpoint)
source "$(dirname "$0")/../beside_peers.sh"
beside_peers_options "$@"
beside_peers_build checkpoint_disk_bench

data=$build/bench-checkpoint
mkdir -p "$data"
"$python" "$here/rows.py" "$build" "$PEERS" >"$data/rows.json"
beside_peers_run "$data"
