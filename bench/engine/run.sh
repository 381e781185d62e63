#!/usr/bin/env bash
# The engine beside its peers, in one run: Adam's update against the memory and
# against PyTorch's and DeepSpeed's; training steps of a small GPT on one and two
# ranks; what the engine costs the host. Prints Markdown tables with ratios and
# peak memory; the raw lines go to BUILD/bench-engine.
#
#   PEERS=… PEERS_HOME=… bench/engine/run.sh [--quick] [--rounds N] [--build DIR] [GROUP…]
#
# PEERS       the folder of the peers' harness: run.sh there takes --extra FILE
# PEERS_HOME  what its setup.sh made: venv with torch and deepspeed, src/nanoGPT
# --quick     a few steps each: does everything work?
# --rounds    the whole list so many times (default 1), joined by the median
# --build     build folder (default build/bench, configured if it is not there)
# GROUP       of adam, train1, train2, overhead, or GROUP/CASE (default: all)
#
# Run it on a quiet machine: the column "others" tells. The whole takes about 12
# minutes on 2 cores and 2 GB of memory.
groups=(adam train1 train2 overhead)
source "$(dirname "$0")/../beside_peers.sh"
beside_peers_options "$@"
beside_peers_build optim_adam_bench engine_bench engine_overhead_bench

# DeepSpeed compiles its CPU Adam when it is first used: not while it is measured.
PATH=$PEERS_HOME/venv/bin:$PATH TORCH_EXTENSIONS_DIR=$PEERS_HOME/extensions DS_ACCELERATOR=cpu CUDA_VISIBLE_DEVICES= \
  "$python" -c 'from deepspeed.ops.op_builder import CPUAdamBuilder; CPUAdamBuilder().load(verbose=False)' >/dev/null 2>&1 ||
  echo "DeepSpeed's CPU Adam does not compile here" >&2

data=$build/bench-engine
mkdir -p "$data"
"$python" "$here/rows.py" "$build" "$PEERS" >"$data/rows.json"
beside_peers_run "$data"
