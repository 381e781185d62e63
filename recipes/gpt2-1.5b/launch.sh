#!/usr/bin/env bash
# GPT-2 1.5B of document 000, on 4 DGX-2 of 16 V100-32GB there.
# HOSTFILE has a line `HOST slots=16` for each node.
# What follows the name of this file overrides the recipe's flags.
exec cairn launch --hostfile "${HOSTFILE:-hosts}" --num_nodes "${NNODES:-4}" --num_gpus "${GPUS_PER_NODE:-16}" \
  pretrain gpt @recipes/gpt2-1.5b/flags "$@"
