#!/usr/bin/env bash
# BERT 345M of document 002, with tensor and pipeline parallelism.
# GPUS_PER_NODE chooses another number of GPUs.
# What follows the name of this file overrides the recipe's flags.
exec cairn launch --num_gpus "${GPUS_PER_NODE:-8}" \
  pretrain bert @recipes/bert-345m/flags "$@"
