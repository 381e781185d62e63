#!/usr/bin/env python3
"""large_models.py --cairn PROGRAM [--row NAME]… [--steps N] [--results FILE]

Trains models that fill one H200, or are larger than it, and prints a table in Markdown:
seconds for a step, tokens per second, TFLOP/s, their share of 756 TFLOP/s (a large product as
measured on an H200), and the most memory that nvidia-smi and the system showed in use.

  --cairn    a program with GPU parts: build/release/bin/cairn-cuda, or the `run` of
             tools/gpu_bundle.sh followed by cairn-cuda, in quotes
  --row      8B: all on the GPU; 20B: 111 layers of 3808, of whose optimizer states 85% are in
             the CPU's memory and visit the GPU for the update. More than one may be given
             (default: both). `tiny` tries the script itself, on a machine without a GPU too
  --steps    of which the first two do not count (default 6)
  --results  also writes every figure as JSON, with date and versions, and the log's lines

TFLOP/s count the model alone: 6 operations for each parameter and token, nothing for attention's
scores, and nothing for what is computed again. All rows compute activations again in backward,
sum gradients in bf16, and have an AdamW whose weights are exact and whose moments are bf16.
The CPU's memory needs 110 GB for 20B.
"""

import argparse
import datetime
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import threading

MEASURED_PEAK = 756e12
COMMON = (
    "--mock-data --tokenizer-type NullTokenizer --eval-iters 0 --attention-dropout 0"
    " --hidden-dropout 0 --clip-grad 1.0 --lr 1e-4 --bf16 --main-grads-dtype bf16 --zero-stage 1"
    " --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"
    " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
    " --log-interval 1")
GPT2 = " --vocab-size 50256 --seq-length 1024 --max-position-embeddings 1024"
ROWS = {
    "8B": GPT2 + " --num-layers 36 --hidden-size 4096 --num-attention-heads 32"
          " --micro-batch-size 16 --global-batch-size 16",
    "20B": GPT2 + " --num-layers 111 --hidden-size 3808 --num-attention-heads 32"
           " --micro-batch-size 32 --global-batch-size 32"
           " --optimizer-cpu-offload --optimizer-offload-fraction 0.85 --overlap-param-gather",
    "tiny": " --vocab-size 500 --seq-length 32 --max-position-embeddings 32 --num-layers 2"
            " --hidden-size 60 --num-attention-heads 4 --micro-batch-size 2 --global-batch-size 2"
            " --optimizer-cpu-offload --optimizer-offload-fraction 0.5",
}


def gpu_memory():
    """Bytes in use on the GPU, or 0 without one."""
    try:
        shown = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, check=True)
        return int(shown.stdout.split()[0]) << 20
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return 0


def host_memory():
    """Bytes in use on this machine."""
    values = dict(line.split(":") for line in open("/proc/meminfo"))
    kilobytes = {name: int(value.split()[0]) for name, value in values.items()}
    return (kilobytes["MemTotal"] - kilobytes["MemAvailable"]) << 10


class MemoryWatch:
    """The most memory in use while the `with` block runs."""

    def __enter__(self):
        self.gpu = self.host = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.done.wait(1):
            self.gpu = max(self.gpu, gpu_memory())
            self.host = max(self.host, host_memory())

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


def measured(cairn, name, steps):
    command = [*cairn, "pretrain", "gpt", *shlex.split(COMMON + ROWS[name]),
               "--train-iters", str(steps)]
    with MemoryWatch() as memory:
        try:
            run = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            sys.exit(f"--cairn {shlex.join(cairn)}: {error.strerror}")
    if run.returncode != 0:
        sys.exit(f"{name}: {shlex.join(command)}\n{(run.stdout + run.stderr)[-2000:]}")
    lines = [line for line in run.stdout.splitlines() if "elapsed time per iteration" in line]
    seconds = statistics.median(
        float(re.search(r"per iteration \(ms\): ([\d.]+)", line)[1]) / 1000 for line in lines[2:])
    parameters = int(re.search(r"(\d+) parameters in", run.stdout + run.stderr)[1])
    tokens = int(re.search(r"consumed tokens: +(\d+)", lines[0])[1])
    rate = 6 * parameters * tokens / seconds
    return {
        "model": name, "parameters": parameters, "tokens": tokens, "seconds": seconds,
        "tokens_per_second": tokens / seconds, "tflops": rate / 1e12,
        "share_of_756": rate / MEASURED_PEAK, "gpu_bytes": memory.gpu, "host_bytes": memory.host,
        "losses": [float(re.search(r"lm loss: (\S+)", line)[1]) for line in lines],
        "command": shlex.join(command[len(cairn):]), "log": lines}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--cairn", type=shlex.split, required=True)
    parser.add_argument("--row", action="append", choices=ROWS)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    if options.steps < 3:
        parser.error("--steps: at least 3, of which the first two do not count")
    print("| model | parameters | s a step | tokens/s | TFLOP/s | of 756 | GPU, GB | host, GB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    found = []
    for name in options.row or ["8B", "20B"]:
        row = measured(options.cairn, name, options.steps)
        found.append(row)
        print(f"| {name} | {row['parameters'] / 1e9:.2f} B | {row['seconds']:.2f} "
              f"| {row['tokens_per_second']:,.0f} | {row['tflops']:.0f} "
              f"| {100 * row['share_of_756']:.1f}% | {row['gpu_bytes'] / 1e9:.0f} "
              f"| {row['host_bytes'] / 1e9:.0f} |", flush=True)
        if options.results:
            version = subprocess.run([*options.cairn, "--version"], capture_output=True, text=True)
            options.results.write_text(json.dumps(
                {"date": datetime.date.today().isoformat(), "version": version.stdout.strip(),
                 "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
