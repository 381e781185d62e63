#!/bin/bash
# A GPT-2 of 345 million parameters, on one GPU, with DeepSpeed's JSON.
# What is added to the command line goes to `cairn pretrain`: --dry-run, say.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
DEEPSPEED_CONFIG=${DEEPSPEED_CONFIG:-$(dirname "$0")/ds_zero2.json}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt2_345m_ds}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
DATA_PATH=${DATA_PATH:-webtext_text_document}

exec "$CAIRN" pretrain gpt \
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 1024 --max-position-embeddings 1024 \
    --train-iters 320000 --lr 0.00015 --lr-decay-style cosine --lr-warmup-fraction .01 \
    --weight-decay 1e-2 --checkpoint-activations \
    --deepspeed --deepspeed_config "$DEEPSPEED_CONFIG" \
    --data-path "$DATA_PATH" --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE" \
    --split 949,50,1 --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" \
    "$@"
