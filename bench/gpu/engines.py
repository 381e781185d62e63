#!/usr/bin/env python3
"""engines.py [--batch 32] [--only NAME[:compile]]… [--seconds 600] [--results FILE]

Trains GPT-2 124M, a plain module of PyTorch, on one GPU by Cairn's Python package and its peers, in
turns, and prints a table in Markdown: tokens per second, memory (GB of 1e9 bytes) and the loss of
the last step. `import cairn` has to work; `import deepspeed` must be the real one, and without
it DeepSpeed's rows are left out. peers/engines.py says what the names are.

  --only     such as cairn1, ds1:compile, fsdp, torch:compile; more than one may be given
             (default: stages 0, 1 and 3 of Cairn and DeepSpeed, FSDP2 and PyTorch, each
             eager and compiled)
  --quick    Cairn 0, 1 and 3, DeepSpeed 1, FSDP2 and PyTorch eager; Cairn 1, DeepSpeed 1, FSDP2 and
             PyTorch compiled
  --rounds   the whole list so many times; the median counts (default 1)
  --steps    steps measured, after 4 that warm up (default 12)
  --seconds  begins nothing when these are over, and says what it has left out
  --limit    seconds that one training may take (default 120)
  --results  also writes every figure as JSON, with date and versions; memory in bytes
  --device cpu --tiny tries the script itself on a machine without a GPU

What is compiled is compiled beforehand, several at a time: the measured processes find the code in
Inductor's cache.
"""

import argparse
import collections
import concurrent.futures
import datetime
import importlib.util
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

SCRIPT = pathlib.Path(__file__).parent / "peers" / "engines.py"
STAGES = (0, 1, 3)
SAID = {"fsdp": "FSDP2", "torch": "PyTorch"}


def everything():
    names = [f"cairn{stage}" for stage in STAGES] + [f"ds{stage}" for stage in STAGES] + ["fsdp", "torch"]
    return [(name, mode) for mode in ("eager", "compile") for name in names]


def quick():
    eager = [f"cairn{stage}" for stage in STAGES] + ["ds1", "fsdp", "torch"]
    return [(name, "eager") for name in eager] + [(name, "compile") for name in ("cairn1", "ds1", "fsdp", "torch")]


def title(name):
    library, stage = name[:-1], name[-1]
    return SAID.get(name) or f"{'Cairn' if library == 'cairn' else 'DeepSpeed'}, stage {stage}"


def train(options, environment, name, mode, steps):
    """The figures of one training. Raises RuntimeError with the end of what it said."""
    command = [sys.executable, str(SCRIPT), name, str(options.batch), mode, "--steps", str(steps), "--device", options.device]
    command += ["--tiny"] if options.tiny else []
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=options.limit)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"not done after {options.limit} s") from error
    found = re.search(r"^RESULT (\{.*\})", done.stdout, re.M)
    if done.returncode or not found:
        raise RuntimeError(f"ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return json.loads(found.group(1))


def say(text):
    print(text, file=sys.stderr, flush=True)


def compile_before(options, environment, cases):
    """Fills Inductor's cache. What fails here fails again, and is told, when it is measured."""

    def once(number, case):
        try:
            # Each is a job of its own.
            train(options, {**environment, "MASTER_PORT": str(29600 + number)}, *case, steps=1)
        except RuntimeError:
            return

    compiled = [case for case in cases if case[1] == "compile"]
    with concurrent.futures.ThreadPoolExecutor(options.at_a_time) as pool:
        list(pool.map(once, range(len(compiled)), compiled))


def measure(options, cases):
    figures = collections.defaultdict(list)
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache + "/triton"}
        if options.device == "cpu":
            environment["DS_ACCELERATOR"] = "cpu"
        compile_before(options, environment, cases)
        for case in cases * options.rounds:
            if time.monotonic() > end:
                say(f"{' '.join(case)}: left out, {options.seconds} s are over")
                continue
            try:
                figure = train(options, environment, *case, steps=options.steps)
            except RuntimeError as error:
                say(f"{' '.join(case)}: {error}")
                continue
            figures[case].append(figure)
            say(f"{' '.join(case)}: {figure['tokens_per_second']} tokens/s, warm after {figure['warm_up_seconds']} s")
            write_results(options, figures)
    return figures


def write_results(options, figures):
    """What is there so far: the time on a GPU may end before the table does."""
    if options.results:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        said = {"machine": machine(), "figures": [figure for runs in figures.values() for figure in runs]}
        options.results.write_text(json.dumps(said, indent=1) + "\n")


def machine():
    said = {"date": datetime.date.today().isoformat()}
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        said["gpu"] = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    return said


def table(figures):
    yield "| | | tokens/s | ms a step | GB at most | loss | of the best peer's speed |"
    yield "|---|---|---:|---:|---:|---:|---:|"

    def median(case, key):
        return statistics.median(figure[key] for figure in figures[case])

    for name, mode in figures:
        case = (name, mode)
        peers = [median(other, "tokens_per_second") for other in figures if other[1] == mode and not other[0].startswith("cairn")]
        speed = median(case, "tokens_per_second")
        ratio = f"{speed / max(peers):.2f}" if peers and name.startswith("cairn") else ""
        yield (
            f"| {title(name)} | {'compiled' if mode == 'compile' else 'eager'} | {speed:,.0f} | {1e3 * median(case, 'seconds'):.1f} "
            f"| {median(case, 'most_allocated') / 1e9:.2f} | {median(case, 'loss'):.3f} | {ratio} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--only", action="append")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--at-a-time", type=int, default=4, help="compilations at a time; all are on the GPU")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    cases = quick() if options.quick else everything()
    if options.only:
        asked = [tuple((each + ":eager").split(":")[:2]) for each in options.only]
        names = [name for name, _ in everything()] + ["cairn2", "ds2"]
        for name, mode in asked:
            if name not in names or mode not in ("eager", "compile"):
                parser.error(f"--only {name}:{mode}: say one of {', '.join(dict.fromkeys(names))}, and perhaps :compile")
        cases = asked
    if not importlib.util.find_spec("deepspeed"):
        say("DeepSpeed is not installed: its rows are left out")
        cases = [case for case in cases if not case[0].startswith("ds")]

    figures = measure(options, cases)
    if not figures:
        return 1  # measure() has said why
    print("\n".join(table(figures)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
