#!/usr/bin/env python3
"""GPT-lite and ResNet-18 in every configuration: the table as Markdown.

    bench/configs/run.py [--build DIR] [--out DIR] [--ranks N] [CONFIG…]

Samples per second, memory (mean over time and ranks, and the most that a rank
took), with --memory-limit the largest model that fits, and where there is a GPU
what nvidia-smi reads meanwhile. A configuration is base.json with CONFIG.json
over it. The text is Tiny Shakespeare's format (--text input.txt) and the pictures
are CIFAR-10's (--pictures FOLDER); without them both are made up.

Run it on a quiet machine.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["gpt-lite", "resnet18"]
CONFIGS = ["serial", "pipeline", "ddp", "zero3", "zero3-cpu", "zero3-nvme", "fp16", "amp"]


def main():
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    gpu = bool(gpu_readings())
    tables = []
    for model in options.model or MODELS:
        rows = []
        for name in configurations(options, model, gpu):
            row = measure(options, model, name)
            if options.memory_limit and name in (options.largest or [name]):
                row["largest"] = largest(options, model, name)
            rows.append(row)
            print(f"{model} {name}: {json.dumps(row)}", file=sys.stderr, flush=True)
        (options.out / f"{model}.json").write_text(json.dumps(rows, indent=1) + "\n")
        tables.append(table(options, model, rows))
    text = "\n".join(tables)
    (options.out / "table.md").write_text(text)
    print(text, end="")


def parse():
    cores = os.cpu_count() or 1
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = arguments.add_argument
    add("configs", nargs="*", metavar="CONFIG", help=f"of {', '.join(CONFIGS)}; default: all")
    add("--model", action="append", choices=MODELS, help="default: both")
    add("--build", type=pathlib.Path, default=HERE.parent.parent / "build" / "release")
    add("--out", type=pathlib.Path, default=pathlib.Path("bench-configs"))
    add("--ranks", type=int, default=min(4, len(gpu_readings()) or cores))
    add("--text", type=pathlib.Path, help="a plain text; default: made-up stories")
    add("--pictures", type=pathlib.Path, help="cifar-10-batches-bin; default: made-up ones")
    add("--layers", type=int, default=12, help="GPT-lite's blocks")
    add("--width", type=int, default=768, help="GPT-lite's width")
    add("--block", type=int, default=2048, help="GPT-lite's tokens")
    add("--channels", type=int, default=64, help="ResNet's in its first stage")
    add("--batch", type=int, default=64, help="samples of a step, over all ranks")
    add("--steps", type=int, default=20)
    add("--warm-up", type=int, default=3)
    add("--memory-limit", type=size, help="of a rank, such as 2GB: search what fits")
    add("--largest", action="append", metavar="CONFIG", help="search for this one alone")
    options = arguments.parse_args()
    for name in options.configs + (options.largest or []):
        if not (HERE / f"{name}.json").exists() or name == "base":
            arguments.error(f"there is no configuration {name}")
    if not (options.build / "bin" / "configs_bench").exists():
        arguments.error(f"build it first: ninja -C {options.build} configs_bench cairn cairn-torch")
    return options


def size(text):
    units = {"KB": 1e3, "MB": 1e6, "GB": 1e9}
    return float(text[:-2]) * units[text[-2:]] if text[-2:] in units else float(text)


def configurations(options, model, gpu):
    names = options.configs or CONFIGS
    if not options.configs and not gpu:
        # A CPU has no fast products in fp16.
        names = ["bf16" if name == "fp16" else name for name in names]
    # ResNet-18 is no list of layers that a pipeline could cut.
    return [name for name in names if model == "gpt-lite" or name != "pipeline"]


def ranks_of(options, name):
    return 1 if name == "serial" else options.ranks


def data_of(options, model):
    if model == "gpt-lite":
        text = options.text or options.out / "stories.txt"
        if not text.exists():
            subprocess.run(
                [options.build / "bin" / "cairn", "data", "sample-corpus", "--format", "text",
                 "--output", text, "--size", "1MB"], check=True, stdout=subprocess.DEVNULL)
        return ["--data", str(text.resolve())]
    if options.pictures:
        return ["--data", str(options.pictures.resolve())]
    return ["--data", str((options.out / "pictures").resolve()), "--pictures", str(10 * options.batch)]


def config_of(options, name):
    config = json.loads((HERE / "base.json").read_text())
    config.update(json.loads((HERE / f"{name}.json").read_text()))
    config["train_batch_size"] = options.batch
    micro = "train_micro_batch_size_per_gpu"
    if micro in config:
        config[micro] = min(config[micro], options.batch)
    for key in ("offload_optimizer", "offload_param"):
        place = config.get("zero_optimization", {}).get(key, {})
        if "nvme_path" in place:
            place["nvme_path"] = str((options.out / place["nvme_path"]).resolve())
            pathlib.Path(place["nvme_path"]).mkdir(exist_ok=True)
    file = options.out / f"{name}.json"
    file.write_text(json.dumps(config, indent=2) + "\n")
    return file


def run(options, model, name, more):
    """Of one run: what it printed, or None where its memory was over the limit."""
    line = [str(options.build / "bin" / "cairn"), "launch", "--num_gpus", str(ranks_of(options, name)),
            str(options.build / "bin" / "configs_bench"),
            "--deepspeed_config", str(config_of(options, name)), "--model", model]
    if name == "pipeline":
        line += ["--stages", str(options.ranks)]
    result = subprocess.run(line + data_of(options, model) + more, text=True, capture_output=True)
    if result.returncode == 0:
        return json.loads(result.stdout[result.stdout.index("{"):].splitlines()[0])
    if "over the memory limit" in result.stderr or "out of memory" in result.stderr:
        return None
    sys.exit(f"{' '.join(line)}\n{result.stdout}{result.stderr}")


def width_of(options, model):
    return options.width if model == "gpt-lite" else options.channels


def sizes(options, model, width):
    depth = ["--layers", str(options.layers), "--block", str(options.block)]
    return ["--width", str(width)] + (depth if model == "gpt-lite" else [])


def measure(options, model, name):
    with Gpus(ranks_of(options, name)) as gpus:
        row = run(options, model, name, sizes(options, model, width_of(options, model)) +
                  ["--steps", str(options.steps), "--warm-up", str(options.warm_up)])
    if row is None:
        sys.exit(f"{name}: this model does not fit into memory; give a smaller one")
    return {"config": name, **row, **gpus.summary(since=row["began"])}


def largest(options, model, name):
    """The widest model that trains within the limit."""
    step = 64 if model == "gpt-lite" else 8  # a head's width; a few channels

    def fits(count):
        return run(options, model, name, sizes(options, model, count * step) +
                   ["--steps", "2", "--warm-up", "0", "--memory-limit", str(int(options.memory_limit))])

    good, best, bad = 0, None, max(1, width_of(options, model) // step)
    while (row := fits(bad)) is not None:
        good, best, bad = bad, row, 2 * bad
    while bad - good > max(1, good // 16):
        middle = (good + bad) // 2
        row = fits(middle)
        if row is None:
            bad = middle
        else:
            good, best = middle, row
    return {"width": good * step, "parameters": best["parameters"] if best else 0}


def gpu_readings():
    """Megabytes in use and percent busy of every GPU; nothing where there is none."""
    if not shutil.which("nvidia-smi"):
        return []
    read = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits"],
        text=True, capture_output=True)
    if read.returncode != 0:
        return []
    return [tuple(number(x) for x in line.split(",")) for line in read.stdout.splitlines()]


def number(text):
    """Not a number where a GPU does not tell, such as a part of one: [N/A]."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


class Gpus:
    """What nvidia-smi reads of the first GPUs while something runs, twice a second."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.readings = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while True:
            read = gpu_readings()
            if not read:
                return
            self.readings += [(time.time(), *each) for each in read[:self.count]]
            if self.done.wait(0.5):
                return

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def summary(self, since):
        """The most memory; and how busy since then, or at all where nothing was read since."""
        memory = [used for _, used, _ in self.readings if used == used]
        busy = [(when, percent) for when, _, percent in self.readings if percent == percent]
        if not memory or not busy:
            return {}
        busy = [percent for when, percent in busy if when >= since] or [x for _, x in busy]
        return {"gpu_memory_max": max(memory) * 2**20, "gpu_busy": sum(busy) / len(busy)}


def table(options, model, rows):
    head = ["configuration", "ranks", "samples/s", "memory, mean", "memory, most"]
    if any("gpu_busy" in row for row in rows):
        head += ["nvidia-smi: memory", "GPU busy"]
    if any("largest" in row for row in rows):
        head.append(f"largest model in {megabytes(options.memory_limit)} a rank")
    what = (f"{options.layers} layers, {options.width} wide, {options.block} tokens"
            if model == "gpt-lite" else f"{options.channels} channels, 32 x 32 pixels")
    lines = [f"{model}: {rows[0]['parameters'] / 1e6:.1f} million parameters, {what}, batch "
             f"{options.batch}, on {rows[0]['device']}.", "",
             "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [row["config"], str(row["ranks"]), speed(row["samples_per_second"]),
                 megabytes(row["memory_average"]), megabytes(row["memory_max"])]
        if "nvidia-smi: memory" in head:
            cells += ([megabytes(row["gpu_memory_max"]), f"{row['gpu_busy']:.0f} %"]
                      if "gpu_busy" in row else ["", ""])
        if head[-1].startswith("largest"):
            cells.append(largest_text(row.get("largest")))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def largest_text(found):
    if not found:
        return ""
    if not found["parameters"]:
        return "none"
    return f"{found['parameters'] / 1e6:.1f} million, {found['width']} wide"


def speed(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def megabytes(value):
    return f"{value / 1e9:.2f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


if __name__ == "__main__":
    main()
