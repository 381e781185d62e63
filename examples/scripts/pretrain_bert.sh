#!/bin/bash
# A BERT of 345 million parameters, on one GPU.
# What is added to the command line goes to `cairn pretrain`: --dry-run, say.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/bert_345m}
VOCAB_FILE=${VOCAB_FILE:-bert-vocab.txt}
DATA_PATH=${DATA_PATH:-my-bert_text_sentence}

exec "$CAIRN" pretrain bert \
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 512 --max-position-embeddings 512 \
    --micro-batch-size 4 --global-batch-size 8 \
    --train-iters 2000000 --lr 0.0001 --lr-decay-iters 990000 --lr-decay-style linear \
    --min-lr 0.00001 --lr-warmup-fraction .01 --weight-decay 1e-2 --clip-grad 1.0 \
    --fp16 --checkpoint-activations \
    --log-interval 10 --save-interval 500 --eval-interval 100 --eval-iters 10 \
    --data-path "$DATA_PATH" --vocab-file "$VOCAB_FILE" --split 949,50,1 \
    --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" \
    "$@"
