#!/usr/bin/env bash
# GPT 125M of document 003, on one A100-40GB there.
# GPUS_PER_NODE chooses another number of GPUs.
# What follows the name of this file overrides the recipe's flags.
exec cairn launch --num_gpus "${GPUS_PER_NODE:-1}" \
  pretrain gpt @recipes/gpt-125m/flags "$@"
