#!/usr/bin/env python3
"""run.py --cairn PROGRAM [--peers FOLDER] [--row MODEL/BATCH]… [--results FILE]

Trains GPT-2 of several sizes on one GPU, Cairn and its peers in turns, and prints a
table in Markdown: tokens per second, memory, MFU and the ratio to the best peer. All
train the same way: bf16, sequences of 1024, a vocabulary of 50304, AdamW with fp32
weights and moments, clipping, no dropout, on random tokens.

  --cairn    a program with GPU parts: build/release/bin/cairn-cuda, or the `run` of
             tools/gpu_bundle.sh followed by cairn-cuda, in quotes
  --peers    a folder with bench_torch.py and nanogpt_model.py (nanoGPT with and
             without torch.compile, DeepSpeed) and perhaps llmc/train_gpt2cu (llm.c);
             without it Cairn alone is measured
  --peer     of eager, compile, ds1, ds1c, llmc; more than one may be given (default:
             compile and llmc)
  --row      such as 124M/64; more than one may be given (default: the whole table)
  --rounds   the whole list so many times; the median counts (default 1)
  --steps    steps of each training; the first quarter warms up (default 24)
  --results  also writes every figure as JSON, with date and versions
  --device cpu --row tiny/2 tries the script itself on a machine without a GPU

MFU counts 6 N + 12 L h T operations for a token: N parameters, L layers of width h,
sequences of T tokens. It is given for two peaks: 989 TFLOP/s (the data sheet of an H100
or H200 in bf16) and 756 TFLOP/s (a large product as measured on an H200).
"""

import argparse
import collections
import datetime
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

SHAPES = {  # layers, heads, hidden
    "124M": (12, 12, 768),
    "350M": (24, 16, 1024),
    "774M": (36, 20, 1280),
    "1.5B": (48, 25, 1600),
    "tiny": (2, 2, 64),
}
LLMC = {"124M": "d12", "350M": "d24", "774M": "d36", "1.5B": "d48"}
ROWS = ["124M/64", "350M/32", "774M/16", "1.5B/16", "1.5B/8"]
PEAKS = [989e12, 756e12]
SEQUENCE = 1024
VOCABULARY = 50304

Figure = collections.namedtuple("Figure", "tokens_per_second gigabytes loss")


def operations_per_token(model):
    layers, _, hidden = SHAPES[model]
    block = 12 * hidden * hidden + 13 * hidden
    parameters = layers * block + (VOCABULARY + SEQUENCE) * hidden + 2 * hidden
    return 6 * parameters + 12 * layers * hidden * SEQUENCE


def output_of(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if result.returncode:
        raise RuntimeError(f"{shlex.join(map(str, command))}\n{(result.stdout + result.stderr)[-2000:]}")
    return result.stdout + result.stderr


def cairn(options, model, batch):
    layers, heads, hidden = SHAPES[model]
    length = 64 if model == "tiny" else SEQUENCE
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log.jsonl")
        flags = f"""--mock-data --tokenizer-type NullTokenizer --vocab-size 50256
            --make-vocab-size-divisible-by 128 --num-layers {layers} --hidden-size {hidden}
            --num-attention-heads {heads} --seq-length {length}
            --max-position-embeddings {length} --micro-batch-size {batch}
            --global-batch-size {batch} --train-iters {options.steps} --eval-iters 0
            --attention-dropout 0 --hidden-dropout 0 --zero-stage 1 --clip-grad 1.0
            --lr 6e-4 --adam-beta2 0.95 --weight-decay 0.1 --log-interval {options.steps // 4}
            --log-memory-to-tensorboard --log-jsonl {log}""".split()
        kind = ["--bf16"] if options.device == "cuda" else []
        output_of([*shlex.split(options.cairn), "pretrain", "gpt", *flags, *kind, *options.more])
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    steps = [line for line in lines if "tokens per second" in line]
    later = steps[1:]  # the first has warmed up
    most = max((line.get("max allocated bytes", 0) for line in later), default=0)
    return Figure(
        statistics.median(line["tokens per second"] for line in later),
        most / 2**30,
        later[-1]["lm loss"],
    )


def torch_peer(options, mode, model, batch):
    text = output_of([sys.executable, pathlib.Path(options.peers, "bench_torch.py"), model, str(batch), mode])
    result = json.loads(re.search(r"^RESULT (\{.*\})", text, re.M).group(1))
    return Figure(result["tok_s"], result["peak_gb"], result["loss"])


def llmc(options, model, batch):
    folder = pathlib.Path(options.peers, "llmc")
    flags = f"""-i data/x_train.bin -j data/x_val.bin -e {LLMC[model]} -b {batch} -t {SEQUENCE}
        -d {batch * SEQUENCE} -r 0 -z 0 -c 0.1 -l 0.0006 -q 0.0 -u 700 -n 1000000 -v 1000000
        -m 1 -s 1000000 -g 16 -h 0 -x {options.steps} -ge 2""".split()
    text = output_of(["./train_gpt2cu", *flags], cwd=folder)
    steps = re.findall(r"loss ([\d.]+).*?\| *([\d.]+) tok/s", text)
    memory = re.findall(r"memory usage: (\d+) MiB", text)
    return Figure(float(steps[-1][1]), max(map(int, memory), default=0) / 1024, float(steps[-1][0]))


def contestants(options):
    names = {"Cairn": cairn}
    if options.peers:
        for peer in options.peer or ["compile", "llmc"]:
            if peer == "llmc":
                names["llm.c"] = llmc
            else:
                names[f"PyTorch {peer}"] = lambda o, model, batch, mode=peer: torch_peer(o, mode, model, batch)
    return names


def measure(options):
    """Figures by row and name, every contestant in its turn in every round."""
    figures = collections.defaultdict(lambda: collections.defaultdict(list))
    for _ in range(options.rounds):
        for row in options.row or ROWS:
            model, batch = row.split("/")
            for name, run in contestants(options).items():
                try:
                    figure = run(options, model, int(batch))
                except (OSError, RuntimeError, LookupError, ValueError, AttributeError) as error:
                    print(f"{row}, {name}: {error}", file=sys.stderr, flush=True)
                    continue
                figures[row][name].append(figure)
                print(f"{row}, {name}: {figure.tokens_per_second:.0f} tokens/s", file=sys.stderr, flush=True)
    return figures


def table(figures):
    yield "| model, batch | | tokens/s | memory (GB) | MFU of 989 | of 756 | loss | Cairn's ratio |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for row, by_name in figures.items():
        medians = {
            name: Figure(*(statistics.median(values) for values in zip(*runs))) for name, runs in by_name.items()
        }
        ours = medians.get("Cairn")
        for name, figure in medians.items():
            rate = figure.tokens_per_second * operations_per_token(row.split("/")[0])
            used = " | ".join(f"{rate / peak:.1%}" for peak in PEAKS)
            ratio = f"{ours.tokens_per_second / figure.tokens_per_second:.2f}" if ours and name != "Cairn" else ""
            yield (
                f"| {row} | {name} | {figure.tokens_per_second:,.0f} | {figure.gigabytes:.1f} "
                f"| {used} | {figure.loss:.3f} | {ratio} |"
            )


def machine():
    said = {"date": datetime.date.today().isoformat()}
    try:
        said["gpu"] = output_of(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).strip()
        said["torch"] = output_of([sys.executable, "-c", "import torch; print(torch.__version__)"]).strip()
    except (OSError, RuntimeError):
        pass
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--peers")
    parser.add_argument("--peer", action="append", choices=["eager", "compile", "ds1", "ds1c", "llmc"])
    parser.add_argument("--row", action="append")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("more", nargs="*", help="flags of `cairn pretrain`, after --")
    options = parser.parse_args()
    for row in options.row or []:
        model, _, batch = row.partition("/")
        if model not in SHAPES or not batch.isdigit():
            parser.error(f"no such row: {row}; say one of {', '.join(SHAPES)}, a slash and the batch")

    figures = measure(options)
    if not figures:
        return 1  # measure() has said why
    print("\n".join(table(figures)))
    if options.results:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        everything = {"machine": machine(), "figures": {
            row: {name: [figure._asdict() for figure in runs] for name, runs in by_name.items()}
            for row, by_name in figures.items()
        }}
        options.results.write_text(json.dumps(everything, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
