#!/usr/bin/env python3
"""Writes the BERT and T5 of tests/golden/checkpoints_core, with their optimizer's states, and adds to continued/: the
real Megatron-LM trains them for five iterations, saves them, and goes on for ten, whose losses are kept.

    pip install torch==2.11.0 numpy einops psutil
    MEGATRON_LM=FOLDER_OF_ITS_SOURCE tools/golden/core_continued.py [NAME…]

As for tools/check_megatron_lm.py, which runs the program, `make` was run in its megatron/core/datasets.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tools"))
import check_megatron_lm  # noqa: E402

golden = root / "tests" / "golden" / "checkpoints_core"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQR"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [
    ("##" if i % 4 == 3 else "") + letter for i, letter in enumerate(LETTERS)]
COMMON = """--hidden-size 8 --num-attention-heads 2 --ffn-hidden-size 20 --make-vocab-size-divisible-by 8
    --lr 0.02 --min-lr 0.001 --lr-warmup-iters 2 --lr-decay-style cosine --lr-decay-iters 20 --weight-decay 0.1
    --adam-beta2 0.95 --clip-grad 1.0 --seed 1234 --hidden-dropout 0 --attention-dropout 0 --micro-batch-size 2
    --global-batch-size 4 --train-iters 15 --eval-iters 0 --eval-interval 100 --log-interval 1 --split 100,0,0 --num-workers 0 --short-seq-prob 0
    --max-position-embeddings 24 --transformer-impl local --no-bias-gelu-fusion --no-masked-softmax-fusion
    --no-bias-dropout-fusion --no-gradient-accumulation-fusion --no-persist-layer-norm
    --distributed-backend gloo --override-opt_param-scheduler --tokenizer-type BertWordPieceLowerCase""".split()
OF_MODEL = {"bert": "--num-layers 2 --seq-length 24 --spec local".split(),
            "t5": "--encoder-num-layers 2 --decoder-num-layers 1 --encoder-seq-length 24 --decoder-seq-length 12 "
                  "--vocab-extra-ids 16 --micro-batch-size 4".split()}  # it weighs micro batches by tokens, and prints that
HALF = ["--bf16", "--use-distributed-optimizer", "--accumulate-allreduce-grads-in-fp32"]
OF_CASE = {"torch_tp2": (2, ["--ckpt-format", "torch", "--tensor-model-parallel-size", "2"]),
           "torch_pp2": (2, ["--ckpt-format", "torch", "--pipeline-model-parallel-size", "2"]),
           "dist": (1, ["--ckpt-format", "torch_dist"]),
           "torch_bf16_distopt": (1, ["--ckpt-format", "torch", *HALF]),
           "dist_bf16_distopt": (1, ["--ckpt-format", "torch_dist", *HALF])}
CASES = {f"{model}/{case}" for model in OF_MODEL for case in OF_CASE} - {"bert/torch_tp2", "t5/torch_pp2"}


def write_data():
    """Documents of sentences, random walks over the words."""
    sys.path.insert(0, os.environ["MEGATRON_LM"])
    import numpy
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    place = golden / "continued"
    (place / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    random = numpy.random.RandomState(26)
    builder = IndexedDatasetBuilder(str(place / "sentences.bin"), dtype=numpy.uint16)
    for _ in range(40):
        at = random.randint(len(WORDS) - 5)
        for _ in range(random.randint(2, 6)):
            steps = random.choice([-2, -1, 1, 1, 2], size=random.randint(3, 10))
            walk = (at + numpy.cumsum(steps)) % (len(WORDS) - 5)
            at = int(walk[-1])
            builder.add_item(torch.tensor([5 + int(i) for i in walk]))
        builder.end_document()
    builder.finalize(str(place / "sentences.idx"))


def run(name, folder):
    model, case = name.split("/")
    ranks, more = OF_CASE[case]
    args = [*COMMON, *OF_MODEL[model], *more, "--data-path", "sentences", "--vocab-file", "vocab.txt"]
    plan = {"program": model, "ranks": ranks, "args": args}
    place = folder / "checkpoint"
    saving = {**plan, "args": [*args, "--save", str(place), "--save-interval", "5", "--exit-interval", "5"]}
    print(name, "saved", check_megatron_lm.losses_of(saving, folder / "none", folder))
    losses = check_megatron_lm.losses_of(plan, place, folder)
    print(name, "went on", losses)
    shutil.rmtree(golden / name, ignore_errors=True)
    shutil.copytree(place, golden / name, ignore=shutil.ignore_patterns("tokenizer"))
    return [round(loss, 6) for loss in losses]


def main():
    if not (golden / "continued" / "sentences.idx").exists():
        write_data()
    os.chdir(golden / "continued")  # files of checkpoints have these names in them
    for name in sys.argv[1:] or sorted(CASES):
        with tempfile.TemporaryDirectory() as folder:
            losses = run(name, pathlib.Path(folder))
        file = golden / "continued" / "losses.json"
        known = json.loads(file.read_text())
        known[name] = losses
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in known.items()]
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
