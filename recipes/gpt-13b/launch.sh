#!/usr/bin/env bash
# GPT 13B of document 003, on 2 nodes of 8 A100 there.
# HOSTFILE has a line `HOST slots=8` for each node.
# What follows the name of this file overrides the recipe's flags.
exec cairn launch --hostfile "${HOSTFILE:-hosts}" --num_nodes "${NNODES:-2}" --num_gpus "${GPUS_PER_NODE:-8}" \
  pretrain gpt @recipes/gpt-13b/flags "$@"
