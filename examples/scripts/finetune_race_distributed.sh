#!/bin/bash
# Fine-tunes a BERT on RACE, on 8 GPUs, and evaluates it after every epoch.
# What is added to the command line goes to `cairn evaluate`.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
TRAIN_DATA=${TRAIN_DATA:-data/RACE/train/middle}
VALID_DATA=${VALID_DATA:-data/RACE/dev/middle data/RACE/dev/high}
PRETRAINED_CHECKPOINT=${PRETRAINED_CHECKPOINT:-checkpoints/bert_345m}
VOCAB_FILE=${VOCAB_FILE:-bert-vocab.txt}
SEQ_LENGTH=${SEQ_LENGTH:-512}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/bert_345m_race}

# shellcheck disable=SC2086 # several folders
exec "$CAIRN" launch --nproc_per_node "$GPUS_PER_NODE" \
    evaluate --task RACE --seed 1234 \
    --train-data $TRAIN_DATA --valid-data $VALID_DATA \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$VOCAB_FILE" \
    --pretrained-checkpoint "$PRETRAINED_CHECKPOINT" \
    --epochs 3 --micro-batch-size 4 --seq-length "$SEQ_LENGTH" \
    --lr 1.0e-5 --lr-decay-style linear --lr-warmup-fraction 0.06 --weight-decay 1.0e-1 --clip-grad 1.0 \
    --hidden-dropout 0.1 --attention-dropout 0.1 --fp16 --checkpoint-activations \
    --log-interval 10 --save-interval 100000 --eval-interval 100 --eval-iters 50 \
    --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" \
    "$@"
