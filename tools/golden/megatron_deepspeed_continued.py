#!/usr/bin/env python3
"""The ten losses with which the real Megatron-DeepSpeed goes on from checkpoints_core/llama_mds/zero1_tp2_pp2.

    MEGATRON_DEEPSPEED=SOURCE megatron_deepspeed_continued.py   prints the entry of continued/losses.json

SOURCE is a snapshot of deepspeedai/Megatron-DeepSpeed at 6acc370a, whose rows of queries, keys and values are those of
the checkpoint; at its head, rotary positions do not run in a pipeline. Its four ranks run on the CPU.
"""
import json
import shutil
import sys
import tempfile
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent
GOLDEN = TOOLS.parent / "tests/golden/checkpoints_core"
sys.path.insert(0, str(TOOLS))
import check_megatron_deepspeed  # noqa: E402

NAME = "llama_mds/zero1_tp2_pp2"
FLAGS = """
    --num-layers=2 --hidden-size=16 --num-attention-heads=4 --num-key-value-heads=2 --ffn-hidden-size=20
    --seq-length=14 --max-position-embeddings=14 --vocab-size=48 --make-vocab-size-divisible-by=8
    --tokenizer-type=NullTokenizer --normalization=rmsnorm --swiglu --disable-bias-linear --use-rotary-position-embeddings
    --untie-embeddings-and-output-weights --hidden-dropout=0 --attention-dropout=0 --lr=0.02 --min-lr=0.001
    --lr-warmup-iters=2 --lr-decay-iters=5 --lr-decay-style=cosine --weight-decay=0.1 --adam-beta2=0.95 --clip-grad=1.0
    --micro-batch-size=2 --global-batch-size=4 --train-iters=15 --eval-iters=0 --eval-interval=1000 --log-interval=1
    --save-interval=1000 --split=100,0,0 --seed=1234 --distributed-backend=gloo --data-impl=mmap
    --use-cpu-initialization --bf16 --accumulate-allreduce-grads-in-fp32 --zero-stage=1
    --tensor-model-parallel-size=2 --pipeline-model-parallel-size=2 --no-masked-softmax-fusion --no-bias-gelu-fusion
    --no-bias-dropout-fusion --no-gradient-accumulation-fusion --no-load-rng --override-opt_param-scheduler"""
CONFIG = {
    "train_batch_size": 4, "train_micro_batch_size_per_gpu": 2, "steps_per_print": 1000, "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 1}, "bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("bin", "idx"):  # it leaves indices beside its data
            shutil.copy(GOLDEN / f"continued/data.{kind}", folder)
        args = FLAGS.split() + [f"--data-path={folder}/data"]
        losses = check_megatron_deepspeed.losses_of(
            {"ranks": 4, "args": args, "config": CONFIG}, GOLDEN / NAME, folder)
    print(json.dumps({NAME: losses}))


if __name__ == "__main__":
    main()
