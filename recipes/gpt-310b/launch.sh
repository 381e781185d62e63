#!/usr/bin/env bash
# GPT of 310.1 billion parameters, on 240 nodes of 8 A100-80GB there.
# HOSTFILE has a line `HOST slots=8` for each node.
# What follows the name of this file overrides the recipe's flags.
exec cairn launch --hostfile "${HOSTFILE:-hosts}" --num_nodes "${NNODES:-240}" --num_gpus "${GPUS_PER_NODE:-8}" \
  pretrain gpt @recipes/gpt-310b/flags "$@"
