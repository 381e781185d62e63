#!/bin/bash
# Evaluates the GPT of 345 million parameters that pretrain_gpt.sh trains, or
# that Megatron-LM saved: its perplexity on WikiText-103 (TASK=WIKITEXT103), or
# how often it foresees the last word of a text (TASK=LAMBADA). What is added to
# the command line goes to `cairn evaluate`: for LAMBADA's whole words
# --strict-lambada, for models on several GPUs --tensor-model-parallel-size.
set -eu
CAIRN=${CAIRN:-$(dirname "$0")/../../cairn}
GPUS_PER_NODE=${GPUS_PER_NODE:-1}
TASK=${TASK:-WIKITEXT103}
VALID_DATA=${VALID_DATA:-wiki.test.tokens}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt2_345m}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}

exec "$CAIRN" launch --nproc_per_node "$GPUS_PER_NODE" evaluate \
    --task "$TASK" --valid-data "$VALID_DATA" \
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 1024 --max-position-embeddings 1024 --fp16 \
    --tokenizer-type GPT2BPETokenizer \
    --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE" \
    --load "$CHECKPOINT_PATH" --no-load-optim --no-load-rng \
    --micro-batch-size 8 --checkpoint-activations --log-interval 10 "$@"
