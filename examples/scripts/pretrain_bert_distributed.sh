#!/bin/bash
# A BERT of 345 million parameters, whole on each of 8 GPUs; for more nodes the same on each.
# What is added to the command line goes to `cairn pretrain`: --dry-run, say.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-localhost}
MASTER_PORT=${MASTER_PORT:-6000}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/bert_345m}
VOCAB_FILE=${VOCAB_FILE:-bert-vocab.txt}
DATA_PATH=${DATA_PATH:-my-bert_text_sentence}

exec "$CAIRN" launch --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NNODES" \
    --node_rank "$NODE_RANK" --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \
    pretrain bert \
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 512 --max-position-embeddings 512 \
    --micro-batch-size 4 --global-batch-size 32 \
    --train-iters 2000000 --lr 0.0001 --lr-decay-iters 990000 --lr-decay-style linear \
    --min-lr 0.00001 --lr-warmup-fraction .01 --weight-decay 1e-2 --clip-grad 1.0 \
    --fp16 --checkpoint-activations \
    --log-interval 10 --save-interval 500 --eval-interval 100 --eval-iters 10 \
    --data-path "$DATA_PATH" --vocab-file "$VOCAB_FILE" --split 949,50,1 \
    --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" \
    --DDP-impl torch \
    "$@"
