#!/usr/bin/env python3
"""nccl_table.py LOG [LOG …] [--on "one H200, 2026-11-19"]

Prints the parity table over NCCL, as Markdown, from what `gpu_test` has printed while it ran
`--gtest_filter='*Parity*Nccl*'` or `--each-in-a-child='*Parity*Nccl*' --show-output`, or `ctest -V`. A row that
several logs have is taken from the last of them. The exit status is 1 when a row failed or did not come to its
end.
"""

import argparse
import collections
import pathlib
import re
import sys

LINE = re.compile(r"PARITY suite=(\S+) row=(\S+) ranks=(\S+) layout=(\S+) loss=(\S+) norm=(\S+)")
STATE = re.compile(r"(RUN|OK|passed|FAILED)(?: +\])? Table/(\w+)\.\w+/(\w+)")

SUITES = {
    "ParityNccl": "curve",
    "ParityOfCheckpointsNccl": "resumed",
    "ParityOfDropoutNccl": "one_gpu_rank",
}

TITLES = {
    "curve": "Against one process on the CPU, fp32",
    "resumed": "Saved in one layout after half of the steps, resumed in another; against one process on the CPU, fp32",
    "one_gpu_rank": "Dropout of attention weights, bf16; against one rank on the GPU",
}

MODELS = {
    "gpt": "",
    "gpt_of_8": "8 layers",
    "gpt_few_keys": "2 heads of keys",
    "gpt_rotary": "rotary, 2 heads of keys",
    "gpt_documents": "documents",
    "gpt_dropout": "dropout",
    "gpt_experts": "4 experts",
    "gpt_experts_top2": "4 and 8 experts, two for each token",
    "t5_experts": "T5 of 4 experts",
}

WORDS = {
    "tensor": "tensor {}",
    "data": "data {}",
    "pipeline": "pipeline {}",
    "expert": "{} ranks share experts",
    "context": "context {}",
    "context_kind": "{}",
    "schedule": "{}",
    "zero": "ZeRO {}",
    "zero_hpz_partition_size": "hpZ: second copies over {} ranks",
    "mics_shard_size": "MiCS: copies over {} ranks",
    "sequence_parallel": "sequence parallel",
    "recompute": "recomputed",
    "--tp-comm-overlap": "tokens travel beside products",
    "--overlap-param-gather": "weights arrive late",
    "--use-nccl-ub": "registered buffers",
    "--bf16": "",
}

KINDS = {"p2p": "ring", "a2a": "Ulysses", "1f1b": "1F1B", "gpipe": "GPipe", "zb-h1": "ZB-H1"}


def in_words(layout):
    """The layout of a row, which is a model and then its settings."""
    model, *settings = layout.split(",")
    words = [MODELS.get(model, model)]
    for setting in settings:
        name, _, value = setting.partition("=")
        words.append(WORDS.get(name, setting).format(KINDS.get(value, value)))
    return ", ".join(word for word in words if word)


def read(logs):
    """The rows of each suite, {row: (line, state)}, and the names of those that another log had, not passed."""
    rows = collections.defaultdict(dict)
    again = []
    for log in logs:
        lines = {}
        states = {}
        for text in pathlib.Path(log).read_text(errors="replace").splitlines():
            if found := LINE.search(text):
                lines[found[1], found[2]] = found
            elif (found := STATE.search(text)) and found[2] in SUITES:
                states[SUITES[found[2]], found[3]] = "OK" if found[1] == "passed" else found[1]
        for (suite, row), state in states.items():
            if rows[suite].get(row, (None, "OK"))[1] != "OK":
                again.append(row)
            rows[suite][row] = lines.get((suite, row)), state
    return rows, again


def print_table(suite, rows):
    print(f"\n## {TITLES[suite]}\n")
    print("| row | layout | ranks | loss | gradient norm |\n|---|---|---:|---:|---:|")
    for name, (line, state) in rows.items():
        differences = [line[5], line[6]] if line else ["—", "—"]
        if state != "OK":
            differences[0] = "**failed**" if state == "FAILED" else "**no end**"
        layout = " → ".join(map(in_words, line[4].split(">"))) if line else "—"
        ranks = line[3].replace(",", ", then ") if line else "—"
        print(f"| {name} | {layout} | {ranks} | {differences[0]} | {differences[1]} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--on", default="", metavar="TEXT", help="the machine and the day, for the title")
    asked = parser.parse_args()
    rows, again = read(asked.logs)
    if not rows:
        sys.exit("nccl_table.py: no row of the parity table in these logs")
    print("# The parity table over NCCL" + (f": {asked.on}" if asked.on else ""))
    print("\nA small model, 6 steps, all ranks on one GPU ([how](../../../docs/launching.md#several-ranks-on-one-gpu)). "
          "The last columns are the largest\ndifferences of any step, on any rank.")
    for suite in TITLES:
        if rows[suite]:
            print_table(suite, rows[suite])
    if again:
        print(f"\nRun again after they had not passed: {', '.join(dict.fromkeys(again))}.")
    states = collections.Counter(state for suite in rows.values() for _, state in suite.values())
    print(f"\n{states['OK']} of {sum(states.values())} rows passed.")
    return 0 if set(states) == {"OK"} else 1


if __name__ == "__main__":
    sys.exit(main())
