#!/usr/bin/env bash
# T5 220M of document 002, with tensor parallelism.
# GPUS_PER_NODE chooses another number of GPUs.
# What follows the name of this file overrides the recipe's flags.
exec cairn launch --num_gpus "${GPUS_PER_NODE:-8}" \
  pretrain t5 @recipes/t5-220m/flags "$@"
