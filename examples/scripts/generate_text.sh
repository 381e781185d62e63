#!/bin/bash
# Two texts by the GPT of 345 million parameters that pretrain_gpt.sh trains, or
# that Megatron-LM saved, from nothing. What is added to the command line goes to
# `cairn generate`. For prompts from a file, NUMBER_OF_SAMPLES=0 and
# --sample-input-file FILE; for a conversation, NUMBER_OF_SAMPLES=0 alone.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt2_345m}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
MAX_OUTPUT_SEQUENCE_LENGTH=${MAX_OUTPUT_SEQUENCE_LENGTH:-1024}
TEMPERATURE=${TEMPERATURE:-1.0}
TOP_P=${TOP_P:-0.9}
NUMBER_OF_SAMPLES=${NUMBER_OF_SAMPLES:-2}
OUTPUT_FILE=${OUTPUT_FILE:-samples.json}

SAMPLES=()
if [ "$NUMBER_OF_SAMPLES" != 0 ]; then
    SAMPLES=(--num-samples "$NUMBER_OF_SAMPLES" --genfile "$OUTPUT_FILE")
fi

exec "$CAIRN" generate \
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 1024 --max-position-embeddings 1024 \
    --micro-batch-size 4 --fp16 \
    --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE" \
    --load "$CHECKPOINT_PATH" \
    --out-seq-length "$MAX_OUTPUT_SEQUENCE_LENGTH" \
    --temperature "$TEMPERATURE" --top_p "$TOP_P" --recompute \
    "${SAMPLES[@]}" "$@"
