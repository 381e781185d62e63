#!/usr/bin/env python3
"""large_models.py --cairn PROGRAM [--row NAME]… [--layers N]… [--steps N] [--nvme FOLDER] [--results FILE]

Trains models that fill one H200, or are larger than it, and prints a table in Markdown:
seconds for a step, tokens per second, TFLOP/s, their share of 756 TFLOP/s (a large product as
measured on an H200), how busy nvidia-smi says the GPU is, and the most memory that nvidia-smi and
the system showed in use.

  --cairn    a program with GPU parts: build/release/bin/cairn-cuda, or the `run` of
             tools/gpu_bundle.sh followed by cairn-cuda, in quotes
  --row      more than one may be given (default: 8B and 20B):
             8B           all on the GPU
             10B          all of the optimizer's states in the CPU's memory
             10B-part     35% of them, and activations of 30 of 50 layers computed again: the rest
                          fits on the GPU
             20B          111 layers of 3808; 85% of the states in the CPU's memory
             774M-nvme    all of the states on a disk; 786,432 tokens a step
             largest-gpu, largest-cpu, largest-nvme
                          layers of 5120, as many as fit on the GPU, with the host's memory, and
                          with a disk besides: numbers of layers are tried from above until one
                          trains
             tiny         tries the script itself, on a machine without a GPU too
  --layers   what the rows largest-… try, in this order; more than one may be given
  --steps    of which the first two do not count (default 6)
  --nvme     folder on the disk of the rows that need one (default: the system's for temporary
             files)
  --results  also writes every figure as JSON, with date and versions, and the log's lines

TFLOP/s count the model alone: 6 operations for each parameter and token, nothing for attention's
scores, and nothing for what is computed again. All rows but 774M-nvme and 10B-part compute all
activations again in backward. All sum gradients in bf16, and have an AdamW whose weights are exact and whose moments are
bf16: 6 bytes for each parameter. The CPU's memory needs 110 GB for 20B.
"""

import argparse
import datetime
import json
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

MEASURED_PEAK = 756e12
STATE_BYTES = 6  # of a parameter: 16 bits of the weight, two moments of 16 bits
COMMON = (
    "--mock-data --tokenizer-type NullTokenizer --eval-iters 0 --attention-dropout 0"
    " --hidden-dropout 0 --clip-grad 1.0 --lr 1e-4 --bf16 --main-grads-dtype bf16 --zero-stage 1"
    " --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"
    " --log-interval 1")
RECOMPUTED = (" --recompute-granularity full --recompute-method uniform"
              " --recompute-num-layers 1")
GPT2 = " --vocab-size 50256 --seq-length 1024 --max-position-embeddings 1024"
WIDE = " --hidden-size 5120 --num-attention-heads 40 --micro-batch-size 4 --global-batch-size 4"
IN_HOST_MEMORY = (" --optimizer-cpu-offload --offload-update-on gpu --overlap-param-gather"
                  " --optimizer-offload-fraction ")
ROWS = {
    "8B": GPT2 + RECOMPUTED + " --num-layers 36 --hidden-size 4096 --num-attention-heads 32"
          " --micro-batch-size 16 --global-batch-size 16",
    "10B": GPT2 + RECOMPUTED + " --num-layers 50 --hidden-size 4096 --num-attention-heads 32"
           " --micro-batch-size 16 --global-batch-size 16" + IN_HOST_MEMORY + "1",
    "10B-part": GPT2 + " --recompute-granularity full --recompute-method block"
                " --recompute-num-layers 30 --num-layers 50 --hidden-size 4096"
                " --num-attention-heads 32 --micro-batch-size 16 --global-batch-size 16"
                + IN_HOST_MEMORY + "0.35",
    "20B": GPT2 + RECOMPUTED + " --num-layers 111 --hidden-size 3808 --num-attention-heads 32"
           " --micro-batch-size 32 --global-batch-size 32" + IN_HOST_MEMORY + "0.85",
    "774M-nvme": GPT2 + " --num-layers 36 --hidden-size 1280 --num-attention-heads 20"
                 " --micro-batch-size 32 --global-batch-size 768",
    "largest-gpu": GPT2 + RECOMPUTED + WIDE,
    "largest-cpu": GPT2 + RECOMPUTED + WIDE + IN_HOST_MEMORY + "{share}",
    "largest-nvme": GPT2 + RECOMPUTED + WIDE,
    "tiny": " --vocab-size 500 --seq-length 32 --max-position-embeddings 32 --num-layers 2"
            " --hidden-size 60 --num-attention-heads 4 --micro-batch-size 2 --global-batch-size 2"
            + RECOMPUTED + IN_HOST_MEMORY + "0.5",
    "tiny-nvme": " --vocab-size 500 --seq-length 32 --max-position-embeddings 32 --num-layers 2"
                 " --hidden-size 60 --num-attention-heads 4 --micro-batch-size 2"
                 " --global-batch-size 8",
}
LAYERS = {"largest-gpu": range(45, 39, -1), "largest-cpu": [81, 79, 76, 73, 70],
          "largest-nvme": [92, 90, 87, 84]}
PARAMETERS_OF_LAYER = 12 * 5120 * 5120


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


def gpu_busy():
    """Percent of the last moment in which a kernel ran, or 0 without a GPU."""
    try:
        shown = subprocess.run(
            ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, check=True)
        return int(shown.stdout.split()[0])
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return 0


class Watch:
    """The most memory in use while the `with` block runs, and when the GPU was busy."""

    def __enter__(self):
        self.gpu = self.host = 0
        self.busy = []  # (time, percent)
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.done.wait(0.3):
            self.gpu = max(self.gpu, gpu_memory())
            self.host = max(self.host, host_memory())
            self.busy.append((time.monotonic(), gpu_busy()))

    def busy_between(self, begin, end):
        seen = [percent for at, percent in self.busy if begin <= at <= end]
        return statistics.mean(seen) if seen else 0

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


def config_file(offload):
    """A DeepSpeed configuration with that part `offload_optimizer`."""
    file = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
    with file:
        json.dump({"zero_optimization": {"stage": 1, "offload_optimizer": offload}}, file)
    return file.name


def states_on_disk(name, folder, layers):
    """The part of the states that goes to the disk: what it has room for, at most all."""
    if name != "largest-nvme":
        return 1
    room = 0.85 * shutil.disk_usage(folder).free
    return min(1, room / (STATE_BYTES * layers * PARAMETERS_OF_LAYER))


def states_in_host_memory(layers):
    """The share that the host has room for, with 18 GB for all else."""
    total = dict(line.split(":") for line in open("/proc/meminfo"))["MemTotal"]
    room = (int(total.split()[0]) << 10) - 18e9
    return round(min(1, room / (STATE_BYTES * layers * PARAMETERS_OF_LAYER)), 3)


def offload_to_disk(name, folder, layers):
    """The part `offload_optimizer` of a row with a disk; largest-nvme fills the host's memory too."""
    in_host = states_in_host_memory(layers) if name == "largest-nvme" else 0
    ratio = round(min(1, in_host + states_on_disk(name, folder, layers)), 3)
    return {"device": "nvme", "nvme_path": folder, "update_on": "gpu", "ratio": ratio,
            "cpu_ratio": min(in_host, ratio), "fast_init": True}


def measured(options, name, layers=None):
    """A row as a dictionary, or the text of the program where it failed."""
    flags = COMMON + ROWS[name].format(share=states_in_host_memory(layers) if layers else 1)
    if layers:
        flags += f" --num-layers {layers}"
    if name.endswith("nvme"):
        offload = offload_to_disk(name, options.nvme, layers)
        flags += " --deepspeed_config " + config_file(offload)
    command = [*options.cairn, "pretrain", "gpt", *shlex.split(flags),
               "--train-iters", str(options.steps)]
    times, output = [], []
    with Watch() as watch:
        try:
            run = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError as error:
            sys.exit(f"--cairn {shlex.join(options.cairn)}: {error.strerror}")
        for line in run.stdout:
            output.append(line)
            if "elapsed time per iteration" in line:
                times.append(time.monotonic())
        run.wait()
    if run.returncode != 0:
        return f"{name}: {shlex.join(command)}\n" + "".join(output)[-2000:]
    lines = [line for line in output if "elapsed time per iteration" in line]
    seconds = statistics.median(
        float(re.search(r"per iteration \(ms\): ([\d.]+)", line)[1]) / 1000 for line in lines[2:])
    parameters = int(re.search(r"(\d+) parameters in", "".join(output))[1])
    tokens = int(re.search(r"consumed tokens: +(\d+)", lines[0])[1])
    rate = 6 * parameters * tokens / seconds
    return {
        "model": name, "parameters": parameters, "tokens": tokens, "seconds": seconds,
        "tokens_per_second": tokens / seconds, "tflops": rate / 1e12,
        "share_of_756": rate / MEASURED_PEAK, "busy": watch.busy_between(times[1], times[-1]),
        "gpu_bytes": watch.gpu, "host_bytes": watch.host,
        "losses": [float(re.search(r"lm loss: (\S+)", line)[1]) for line in lines],
        "command": shlex.join(command[len(options.cairn):]), "log": lines}


def measured_or_exit(options, name):
    """The row, with the most layers that train where that is asked."""
    failed = "nothing was tried"
    tried = options.layers or LAYERS[name] if name in LAYERS else [None]
    for layers in tried:
        row = measured(options, name, layers)
        if isinstance(row, dict):
            return row
        failed = row
        print(f"{name}, {layers} layers: failed", file=sys.stderr, flush=True)
    sys.exit(failed)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--cairn", type=shlex.split, required=True)
    parser.add_argument("--row", action="append", choices=ROWS)
    parser.add_argument("--layers", action="append", type=int)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--nvme", default=tempfile.gettempdir())
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    if options.steps < 3:
        parser.error("--steps: at least 3, of which the first two do not count")
    print("| model | parameters | s a step | tokens/s | TFLOP/s | of 756 | busy | GPU, GB "
          "| host, GB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    found = []
    for name in options.row or ["8B", "20B"]:
        row = measured_or_exit(options, name)
        found.append(row)
        print(f"| {name} | {row['parameters'] / 1e9:.2f} B | {row['seconds']:.2f} "
              f"| {row['tokens_per_second']:,.0f} | {row['tflops']:.0f} "
              f"| {100 * row['share_of_756']:.1f}% | {row['busy']:.0f}% "
              f"| {row['gpu_bytes'] / 1e9:.0f} | {row['host_bytes'] / 1e9:.0f} |", flush=True)
        if options.results:
            version = subprocess.run([*options.cairn, "--version"], capture_output=True, text=True)
            options.results.write_text(json.dumps(
                {"date": datetime.date.today().isoformat(), "version": version.stdout.strip(),
                 "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
