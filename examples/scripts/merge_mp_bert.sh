#!/bin/bash
# A BERT that 2 tensor parallel ranks of Megatron saved, as 2 pipeline stages.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
TENSOR_MODEL_PARALLEL_SIZE=${TENSOR_MODEL_PARALLEL_SIZE:-2}
TARGET_PIPELINE_MODEL_PARALLEL_SIZE=${TARGET_PIPELINE_MODEL_PARALLEL_SIZE:-2}
VOCAB_FILE=${VOCAB_FILE:-bert-vocab.txt}
NUM_LAYERS=${NUM_LAYERS:-24}
HIDDEN_SIZE=${HIDDEN_SIZE:-1024}
NUM_ATTENTION_HEADS=${NUM_ATTENTION_HEADS:-16}
SEQ_LENGTH=${SEQ_LENGTH:-512}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/bert_345m}

exec "$CAIRN" merge-mp-partitions \
    --model-type BERT \
    --tensor-model-parallel-size "$TENSOR_MODEL_PARALLEL_SIZE" \
    --pipeline-model-parallel-size 1 \
    --target-pipeline-model-parallel-size "$TARGET_PIPELINE_MODEL_PARALLEL_SIZE" \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$VOCAB_FILE" \
    --num-layers "$NUM_LAYERS" --hidden-size "$HIDDEN_SIZE" \
    --num-attention-heads "$NUM_ATTENTION_HEADS" \
    --seq-length "$SEQ_LENGTH" --max-position-embeddings "$SEQ_LENGTH" \
    --load "$CHECKPOINT_PATH" --save "$CHECKPOINT_PATH/merged" \
    "$@"
