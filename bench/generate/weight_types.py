#!/usr/bin/env python3
"""The perplexity that weights in bf16 and int8 cost: trains a small GPT on the sources of Python's standard library
and evaluates it on files that it has not seen.

    bench/generate/weight_types.py --cairn build/release/bin/cairn --folder /tmp/weights --iterations 1500

What is in the folder already is not made again, so that more types can be evaluated later.
"""

import argparse
import json
import pathlib
import platform
import subprocess
import sys
import sysconfig

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--cairn", default="./cairn")
parser.add_argument("--folder", type=pathlib.Path, required=True)
parser.add_argument("--iterations", type=int, default=1500)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--sequence", type=int, default=256)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--vocabulary", type=int, default=4096)
parser.add_argument("--most-held-out", type=int, default=200_000, help="bytes")
options = parser.parse_args()
folder = options.folder


def cairn(*words):
    words = [options.cairn, *map(str, words)]
    print("+", " ".join(words), flush=True)
    subprocess.run(words, check=True)


def write_texts():
    """Every 25th file is held out."""
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in library.rglob("*.py") if "site-packages" not in path.parts)
    train, held_out, size = [], [], 0
    for i, path in enumerate(files):
        text = path.read_text(encoding="utf-8", errors="replace")
        if not text.strip():
            continue
        if i % 25 != 0:
            train.append(json.dumps({"text": text}))
        elif size + len(text) <= options.most_held_out:
            held_out.append(json.dumps({"text": text}))
            size += len(text)
    (folder / "train.jsonl").write_text("\n".join(train) + "\n")
    (folder / "held_out.jsonl").write_text("\n".join(held_out) + "\n")


def train():
    cairn("train-tokenizer", folder / "train.jsonl", folder / "tokenizer", "--vocab-size", options.vocabulary)
    cairn("preprocess", "--input", folder / "train.jsonl", "--output-prefix", folder / "train",
          "--tokenizer-model", folder / "tokenizer" / "tokenizer.json", "--append-eod")
    cairn("pretrain", "gpt", "--num-layers", options.layers, "--hidden-size", options.hidden,
          "--num-attention-heads", options.hidden // 64, "--seq-length", options.sequence,
          "--hidden-dropout", 0, "--attention-dropout", 0, "--micro-batch-size", options.batch,
          "--global-batch-size", options.batch, "--train-iters", options.iterations, "--lr", "2e-3", "--min-lr", "2e-4",
          "--lr-decay-style", "cosine", "--lr-warmup-fraction", "0.05", "--adam-beta2", "0.95", "--weight-decay", "0.1",
          "--data-path", folder / "train_text_document", "--split", "100,0,0", "--eval-iters", 0,
          "--tokenizer-model", folder / "tokenizer" / "tokenizer.json", "--log-interval", 50,
          "--save", folder / "checkpoints", "--load", folder / "checkpoints", "--save-interval", 250)


def evaluate(weight_type):
    output = folder / f"{weight_type}.json"
    if not output.exists():
        cairn("evaluate", "--task", "PPL", "--valid-data", folder / "held_out.jsonl", "--load", folder / "checkpoints",
              "--tokenizer-model", folder / "tokenizer" / "tokenizer.json", "--weight-type", weight_type,
              "--output", output)
    return json.loads(output.read_text())


folder.mkdir(parents=True, exist_ok=True)
if not (folder / "train.jsonl").exists():
    write_texts()
if not (folder / "fp32.json").exists():
    train()
exact = None
for weight_type in ("fp32", "bf16", "int8"):
    report = evaluate(weight_type)
    results = report["results"]
    exact = exact or results["ppl"]
    print(f"{weight_type}: perplexity {results['ppl']:.4f} ({100 * (results['ppl'] / exact - 1):+.3f} %), "
          f"{results['bits_per_byte']:.5f} bits per byte, {results['scored_tokens']} tokens, "
          f"{report['seconds']:.1f} s")
print(f"Python {platform.python_version()}, {options.layers} layers of {options.hidden}, "
      f"{options.iterations} iterations of {options.batch} x {options.sequence} tokens", file=sys.stderr)
