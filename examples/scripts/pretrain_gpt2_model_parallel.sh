#!/bin/bash
# A GPT-2 of 345 million parameters, shared by 2 GPUs and more of such pairs.
# What is added to the command line goes to `cairn pretrain`: --dry-run, say.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-localhost}
MASTER_PORT=${MASTER_PORT:-6000}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt2_345m_mp2}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
DATA_PATH=${DATA_PATH:-webtext_text_document}

exec "$CAIRN" launch --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NNODES" \
    --node_rank "$NODE_RANK" --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \
    pretrain gpt \
    --model-parallel-size 2 \
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 1024 --max-position-embeddings 1024 --batch-size 8 \
    --train-iters 320000 --lr 0.00015 --lr-decay-style cosine --lr-warmup-fraction .01 \
    --weight-decay 1e-2 --clip-grad 1.0 --checkpoint-activations --fp16 \
    --data-path "$DATA_PATH" --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE" \
    --split 949,50,1 --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" \
    "$@"
