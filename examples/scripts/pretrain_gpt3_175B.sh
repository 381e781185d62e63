#!/bin/bash
# GPT-3, 175 billion parameters on 1024 GPUs: prints a job for Slurm. As in
#   examples/scripts/pretrain_gpt3_175B.sh > gpt3.sh && sbatch gpt3.sh
# What is added to the command line goes to `cairn pretrain`.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt3_175b}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
DATA_PATH=${DATA_PATH:-my-gpt2_text_document}

exec "$CAIRN" launch --print-slurm --nnodes 128 --num_gpus 8 --job-name gpt3-175b \
    pretrain gpt \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 \
    --num-layers 96 --hidden-size 12288 --num-attention-heads 96 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --micro-batch-size 1 --global-batch-size 1536 --rampup-batch-size 16 16 5859375 \
    --train-samples 146484375 --lr-decay-samples 126953125 --lr-warmup-samples 183105 \
    --lr 6.0e-5 --min-lr 6.0e-6 --lr-decay-style cosine \
    --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 \
    --init-method-std 0.006 --fp16 --checkpoint-activations \
    --log-interval 10 --save-interval 1000 --eval-interval 1000 --eval-iters 40 \
    --tensorboard-dir "$CHECKPOINT_PATH/tensorboard" \
    --data-path "$DATA_PATH" --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE" \
    --split 98,2,0 --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" \
    "$@"
