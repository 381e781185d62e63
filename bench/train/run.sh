#!/usr/bin/env bash
# Training on the CPU beside the peers, in one run: steps of GPTs of three sizes
# in one process with two threads, fp32 (PyTorch eager, torch.compile with and
# without its fused AdamW, llm.c), our product of matrices beside libtorch's, and
# models shared by two ranks beside what their messages allow.
# Prints Markdown tables; the raw lines go to BUILD/bench-train.
#
#   PEERS=… PEERS_HOME=… bench/train/run.sh [--quick] [--rounds N] [--build DIR] [GROUP…]
#
# PEERS       the folder of the peers' harness: run.sh there takes --extra FILE
# PEERS_HOME  what its setup.sh made: venv with torch, src/nanoGPT, llm.c
# --quick     a few steps each: does everything work?
# --rounds    the whole list so many times (default 1), joined by the median
# --build     build folder (default build/bench, configured if it is not there)
# GROUP       of train, product, parallel, or GROUP/CASE (default: all)
#
# Run it on a quiet machine: the column "others" tells. The whole takes about 15
# minutes on 2 cores and 5 GB of memory.
groups=(train product parallel)
source "$(dirname "$0")/../beside_peers.sh"
beside_peers_options "$@"
beside_peers_build train_bench product_bench parallel_bench

data=$build/bench-train
mkdir -p "$data"
"$python" "$here/rows.py" "$build" >"$data/rows.json"
beside_peers_run "$data"
