#!/usr/bin/env bash
# GPT 1.3B of document 003, on 4 A100-40GB there.
# GPUS_PER_NODE chooses another number of GPUs.
# What follows the name of this file overrides the recipe's flags.
exec cairn launch --num_gpus "${GPUS_PER_NODE:-4}" \
  pretrain gpt @recipes/gpt-1.3b/flags "$@"
