#!/usr/bin/env bash
# Cairn beside its peers, in one run with two threads each: encoding and
# preprocessing text, training a tokenizer, building GPT indices. Prints a
# Markdown table with ratios and peak memory; the raw lines go to BUILD/bench-data.
#
#   PEERS=… PEERS_HOME=… bench/data/run.sh [--quick] [--rounds N] [--build DIR] [GROUP…]
#
# PEERS       the folder of the peers' harness: run.sh there takes --extra FILE
# PEERS_HOME  what its setup.sh made: venv with tokenizers, tiktoken, numpy and
#             torch; src/Megatron-LM; data/corpus.jsonl, data/gpt2
# --quick     small inputs, one run each: does everything work?
# --rounds    the whole list so many times (default 1), joined by the median
# --build     build folder (default build/bench, configured if it is not there)
# GROUP       of tokenize, tokenize-text, train-tokenizer, train-text, gpt-index
#             (default: all)
#
# Run it on a quiet machine: the column "other processes" tells. The whole takes
# about 30 minutes on 2 cores, 8 GB of memory and 2 GB of disk.
groups=(tokenize tokenize-text train-tokenizer train-text gpt-index)
source "$(dirname "$0")/../beside_peers.sh"
beside_peers_options "$@"
beside_peers_build cairn data_encode_bench data_index_bench

helpers=$PEERS_HOME/src/Megatron-LM/megatron/core/datasets
if ! compgen -G "$helpers/helpers_cpp*.so" >/dev/null; then
  "$python" -m pip install -q pybind11 >&2
  PATH=$PEERS_HOME/venv/bin:$PATH make -C "$helpers" >&2
fi

data=$build/bench-data
mkdir -p "$data"
megabytes=$( ((quick)) && echo 3 || echo 100)
if [[ ! -e $data/train-$megabytes.jsonl ]]; then
  "$python" "$here/make_text.py" "$data/train-$megabytes.jsonl" "$megabytes" /usr/share/doc /usr/share/perl \
    "$PEERS_HOME/venv/lib" /usr/include /usr/lib/python3
fi
ln -sf "train-$megabytes.jsonl" "$data/train.jsonl"
"$python" "$here/rows.py" "$build" "$data" "$megabytes" "$quick" >"$data/rows.json"

beside_peers_run "$data"
