#!/bin/bash
# A BERT that 2 tensor parallel ranks of Megatron saved, as 2 pipeline stages.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
TENSOR_MODEL_PARALLEL_SIZE=${TENSOR_MODEL_PARALLEL_SIZE:-2}
TARGET_PIPELINE_MODEL_PARALLEL_SIZE=${TARGET_PIPELINE_MODEL_PARALLEL_SIZE:-2}
VOCAB_FILE=${VOCAB_FILE:-bert-vocab.txt}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/bert_345m}

exec "$CAIRN" merge-mp-partitions \
    --model-type BERT \
    --tensor-model-parallel-size "$TENSOR_MODEL_PARALLEL_SIZE" \
    --pipeline-model-parallel-size 1 \
    --target-pipeline-model-parallel-size "$TARGET_PIPELINE_MODEL_PARALLEL_SIZE" \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$VOCAB_FILE" \
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 512 --max-position-embeddings 512 \
    --load "$CHECKPOINT_PATH" --save "$CHECKPOINT_PATH/merged" \
    "$@"
