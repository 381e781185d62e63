#!/bin/bash
# A T5 of 220 million parameters, 2 tensor parallel, on 8 GPUs.
# What is added to the command line goes to `cairn pretrain`: --dry-run, say.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-localhost}
MASTER_PORT=${MASTER_PORT:-6000}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/t5_220m}
VOCAB_FILE=${VOCAB_FILE:-bert-vocab.txt}
DATA_PATH=${DATA_PATH:-my-t5_text_sentence}

exec "$CAIRN" launch --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NNODES" \
    --node_rank "$NODE_RANK" --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \
    pretrain t5 \
    --num-layers 12 --hidden-size 768 --num-attention-heads 12 \
    --kv-channels 64 --ffn-hidden-size 3072 \
    --encoder-seq-length 512 --decoder-seq-length 128 --max-position-embeddings 512 \
    --micro-batch-size 16 --global-batch-size 128 \
    --train-iters 1000000 --lr 0.0001 --lr-decay-iters 1000000 --lr-decay-style linear \
    --min-lr 0.00001 --lr-warmup-fraction .01 --weight-decay 1e-2 --clip-grad 1.0 \
    --vocab-extra-ids 100 --fp16 \
    --log-interval 10 --save-interval 500 --eval-interval 100 --eval-iters 10 \
    --data-path "$DATA_PATH" --vocab-file "$VOCAB_FILE" --split 949,50,1 \
    --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" \
    --tensor-model-parallel-size 2 --DDP-impl torch \
    "$@"
