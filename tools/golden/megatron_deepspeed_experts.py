#!/usr/bin/env python3
"""Writes tests/golden/checkpoints_core/moe_mds: the real Megatron-DeepSpeed's checkpoints of a tiny GPT with DeepSpeed's
experts after five iterations, and prints the losses of the ten that follow in the same run.

    MEGATRON_DEEPSPEED=SOURCE megatron_deepspeed_experts.py [RUN…]

Two ranks on the CPU divide the experts, at ZeRO stage 0 and 1. SOURCE is deepspeedai/Megatron-DeepSpeed at 4efb479d.
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

FLAGS = """
    --num-layers=2 --hidden-size=16 --num-attention-heads=4 --ffn-hidden-size=36 --seq-length=14
    --max-position-embeddings=14 --vocab-size=48 --make-vocab-size-divisible-by=8 --tokenizer-type=NullTokenizer
    --hidden-dropout=0 --attention-dropout=0 --lr=0.02 --min-lr=0.001 --lr-warmup-iters=2 --lr-decay-iters=20
    --lr-decay-style=cosine --weight-decay=0.1 --adam-beta2=0.95 --clip-grad=1.0 --micro-batch-size=2
    --global-batch-size=4 --train-iters=15 --eval-iters=0 --eval-interval=1000 --log-interval=1 --save-interval=5
    --split=100,0,0 --seed=1234 --distributed-backend=gloo --data-impl=mmap --use-cpu-initialization
    --no-pipeline-parallel --no-masked-softmax-fusion --no-bias-gelu-fusion --no-bias-dropout-fusion
    --no-gradient-accumulation-fusion --init-method-std=0.2 --topk 1
    --moe-expert-parallel-size 2 --disable-moe-token-dropping --moe-loss-coeff 0.01 --create-moe-param-group"""
STANDARD = "--num-experts 4 --expert-interval 2"
RESIDUAL = STANDARD + " --mlp-type residual"
RUNS = {"zero0": (0, STANDARD), "zero1": (1, STANDARD), "zero0_residual": (0, RESIDUAL), "zero1_residual": (1, RESIDUAL)}


def main():
    losses = {}
    for run in sys.argv[1:] or RUNS:
        stage, experts = RUNS[run]
        config = {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2, "steps_per_print": 1000,
                  "gradient_clipping": 1.0, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for kind in ("bin", "idx"):  # it leaves indices beside its data
                shutil.copy(GOLDEN / f"continued/data.{kind}", folder)
            args = FLAGS.split() + experts.split() + [f"--zero-stage={stage}", f"--data-path={folder}/data", f"--save={folder}/saved"]
            all_losses = check_megatron_deepspeed.losses_of(
                {"ranks": 2, "args": args, "config": config}, folder / "none", folder)
            place = GOLDEN / f"moe_mds/{run}"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(folder / "saved/global_step5", place / "global_step5")
            (place / "latest").write_text("global_step5")
            losses[f"moe_mds/{run}"] = all_losses[5:]
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
