#!/bin/bash
# Fine-tunes a BERT on MNLI, on 8 GPUs, and evaluates it after every epoch.
# What is added to the command line goes to `cairn evaluate`.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
TRAIN_DATA=${TRAIN_DATA:-data/glue_data/MNLI/train.tsv}
VALID_DATA=${VALID_DATA:-data/glue_data/MNLI/dev_matched.tsv data/glue_data/MNLI/dev_mismatched.tsv}
PRETRAINED_CHECKPOINT=${PRETRAINED_CHECKPOINT:-checkpoints/bert_345m}
VOCAB_FILE=${VOCAB_FILE:-bert-vocab.txt}
SEQ_LENGTH=${SEQ_LENGTH:-512}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/bert_345m_mnli}

# shellcheck disable=SC2086 # several files
exec "$CAIRN" launch --nproc_per_node "$GPUS_PER_NODE" \
    evaluate --task MNLI --seed 1234 \
    --train-data $TRAIN_DATA --valid-data $VALID_DATA \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$VOCAB_FILE" \
    --pretrained-checkpoint "$PRETRAINED_CHECKPOINT" \
    --epochs 5 --micro-batch-size 8 --seq-length "$SEQ_LENGTH" \
    --lr 5.0e-5 --lr-decay-style linear --lr-warmup-fraction 0.065 --weight-decay 1.0e-1 \
    --fp16 --checkpoint-activations \
    --log-interval 10 --save-interval 500000 --eval-interval 100 --eval-iters 50 \
    --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" \
    "$@"
