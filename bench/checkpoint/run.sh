#!/usr/bin/env bash
# Checkpoints of GPT-2 124M with Adam's states (1.5 GB) beside the peers and the
# disk itself, in one run: saving to new files with fsync, loading from the page
# cache and from the disk, on one rank, two, and one's by the other; and what a
# save takes from the training that it runs beside. Prints Markdown tables with
# ratios; the raw lines go to BUILD/bench-checkpoint.
#
#   PEERS=… PEERS_HOME=… bench/checkpoint/run.sh [--quick] [--rounds N] [--build DIR] [CASE…]
#
# PEERS       the folder of the peers' harness: run.sh there takes --extra FILE
# PEERS_HOME  what its setup.sh made: venv with torch and safetensors; files are
#             written to data/ there, so it decides which disk is measured
# --quick     one save and one load each: does everything work?
# --rounds    the whole list so many times (default 1), joined by the median
# --build     build folder (default build/bench, configured if it is not there)
# CASE        checkpoint/save, checkpoint/load, checkpoint/load-cold,
#             checkpoint/step (default: all); the engine's loads read what its
#             save has left in PEERS_HOME/data
#
# Run it on a quiet machine: the column "others" tells. The whole takes about 15
# minutes, 8 GB of disk and 6 GB of memory.
groups=(checkpoint)
source "$(dirname "$0")/../beside_peers.sh"
beside_peers_options "$@"
beside_peers_build checkpoint_disk_bench checkpoint_engine_bench

data=$build/bench-checkpoint
mkdir -p "$data"
"$python" "$here/rows.py" "$build" "$PEERS" >"$data/rows.json"
beside_peers_run "$data"
