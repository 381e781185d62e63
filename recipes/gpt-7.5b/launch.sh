#!/usr/bin/env bash
# GPT of 7.5 billion parameters, on 16 nodes of 8 A100-80GB there.
# HOSTFILE has a line `HOST slots=8` for each node.
# What follows the name of this file overrides the recipe's flags.
exec cairn launch --hostfile "${HOSTFILE:-hosts}" --num_nodes "${NNODES:-16}" --num_gpus "${GPUS_PER_NODE:-8}" \
  pretrain gpt @recipes/gpt-7.5b/flags "$@"
