#!/usr/bin/env python3
"""Prints what docs/planning.md says under "What the documents leave open": the
answers of `cairn plan` to the questions that published documents leave open.

usage: bench/plan/open_questions.py CAIRN [--write]
With --write they replace those of the page. A test compares them.
"""
import json
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/planning.md"
BEGIN = "<!-- bench/plan/open_questions.py -->"
END = "<!-- end -->"

T13 = "gpt @recipes/gpt-13b/flags --vocab-size 52000"
T175 = "gpt @recipes/gpt3-175b/flags --cluster selene-a100 --num-gpus 1024"
RUNS = [
    ("13B of 003 on its 16 GPUs, as A100-80GB", f"{T13} --cluster selene-a100 --num-gpus 16"),
    ("the same on A100-40GB, as 003 calls them", f"{T13} --cluster a100-40gb --num-gpus 16"),
    ("the same, the best layout", f"{T13} --cluster selene-a100 --num-gpus 16 --search --top 1"),
    ("175B of 003 in the layout of 002", f"{T175} --tokens 3.5e12 --node-mttf-hours 1e9"),
    ("the same with failures and checkpoints", f"{T175} --tokens 3.5e12"),
    ("the same, the best layout", f"{T175} --tokens 3.5e12 --search --top 1"),
    ("175B of 002, its 300 billion tokens", f"{T175} --tokens 300e9"),
    ("a trillion parameters, 450 billion tokens",
     "gpt @recipes/gpt-1t/flags --cluster selene-a100 --num-gpus 3072 --tokens 450e9"),
]
STAGES = (
    "gpt --num-layers 36 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --vocab-size 51200 "
    "--cluster selene-a100 --num-gpus 64 --micro-batch-size 1 --global-batch-size 64 --stages")
LARGEST = (
    "gpt --num-layers 45 --hidden-size 5120 --num-attention-heads 40 --seq-length 1024 --vocab-size 50256 "
    "--bf16 --main-grads-dtype bf16 --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 "
    "--checkpoint-activations --cluster h200 --num-gpus 1 --micro-batch-size 4 --global-batch-size 4 --stages")
# docs/benchmarks.md, "Models larger than a GPU": they fill the GPU, the host, and the host and the disk. What is
# predicted for the last follows from the disk's room, which is taken from that very run.
MEASURED = [
    ("ZeRO 0", "all on the GPU", 14.4, True),
    ("ZeRO 1, part of the optimizer on the CPU", "78% on the host", 25.1, True),
    ("ZeRO 1, optimizer on the CPU and NVMe", "69% on the host, the rest on a disk", 28.6, False),
]


def planned(cairn, words):
    result = subprocess.run(
        [cairn, "plan", *shlex.split(words)], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1) or not result.stdout:  # 1: it does not fit
        sys.exit(f"cairn plan {words}\n{result.stderr}")
    return result.stdout


def layout_of(plan):
    text = f"TP {plan['tensor']} PP {plan['pipeline']} DP {plan['data']}"
    if plan["virtual_stages"] > 1:
        text += f" x{plan['virtual_stages']}"
    elif plan["pipeline"] > 1:
        text += f" {plan['schedule']}"
    text += f", ZeRO {plan['zero_stage']}, micro batch {plan['micro_batch']}"
    return text + (", recompute" if plan["recompute"] == "full" else "")


def answers(cairn):
    lines = ["| | run | layout | memory of a GPU | fits | iteration | tokens | days | GPU hours |",
             "|---|---|---|---:|---|---:|---:|---:|---:|"]
    for number, (name, words) in enumerate(RUNS, 1):
        plan = json.loads(planned(cairn, words + " --json"))[0]
        lines.append(
            f"| {number} | {name} | {layout_of(plan)} | {plan['memory_bytes_per_rank']['total'] / 1e9:.1f} GB "
            f"| {'yes' if plan['fits'] else 'no'} | {plan['iteration_seconds']:.3g} s "
            f"| {plan['run_tokens'] / 1e9:.4g} billion | {plan['run_days']:.3g} | {plan['run_gpu_hours']:.3g} |")
    lines.append("")
    for number, (_, words) in enumerate(RUNS, 1):
        lines.append(f"    cairn plan {words}  # {number}")
    return "\n".join(lines) + "\n"


def stages(cairn, words):
    """The table of --stages, as the terminal shows it and as rows."""
    table = planned(cairn, words).rsplit("\n\n", 1)[1]
    rows = {}
    for line in table.splitlines()[1:]:
        name = line.split("  ")[0]
        rows[name] = line.split()[-1]
    return table, rows


def error(billions, measured):
    return f"{100 * (float(billions.removesuffix('B')) / measured - 1):+.0f}%"


def broken(words):
    parts = []
    line = "cairn plan"
    for word in words.split():
        if word.startswith("--") and len(line) > 90:
            parts.append(line + " \\")
            line = "     "
        line += " " + word
    return "\n".join("    " + each for each in [*parts, line])


def section(cairn):
    trade, _ = stages(cairn, STAGES)
    _, largest = stages(cairn, LARGEST)
    rows = "".join(
        f"| {where} | {largest[name].removesuffix('B')} billion | {measured} billion "
        f"| {error(largest[name], measured) if is_prediction else 'an input'} |\n"
        for name, where, measured, is_prediction in MEASURED)
    return f"""
{answers(cairn)}
Documents 001 and 004 ask which ZeRO stage to choose and how large a model may be. `--stages` answers for
any layout. These are the 7.5 billion parameters of ZeRO's paper on 64 A100 of Selene, one sample a GPU:

{broken(STAGES)}

```text
{trade.rstrip()}
```

No stage shares activations: what is left at stage 3 is mostly theirs, and more ranks do not lower it. The largest
model has more layers of the same width.

The largest models that were trained on one H200 with 128 GB of host memory
([measured](benchmarks.md#models-larger-than-a-gpu)), beside those that the planner says are the largest:

| states | predicted | measured | predicted is off by |
|---|---:|---:|---:|
{rows}
The last row is no prediction: the room of the disk of `h200`, 54 GB, is taken from that run.

{broken(LARGEST)}

"""


def main():
    cairn = str(pathlib.Path(sys.argv[1]).resolve())
    text = section(cairn)
    if sys.argv[2:] == ["--write"]:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + "\n" + text + END + rest.split(END, 1)[1])
    else:
        print(text, end="")


main()
