#!/usr/bin/env python3
"""Drills: kills, stops, broken disks, flipped bits and crowds, on the real program.

    tools/drills/run.py                          # one case of each kind: the form that the tests run
    tools/drills/run.py --size middle --seed 7
    tools/drills/run.py --size long              # 200 kills, 2,000 mutations and more; hours
    tools/drills/run.py --only stop_one_of_four --cases 20
    tools/drills/run.py --share-gpu --cases 3    # kills and stops of ranks on one GPU, over NCCL

Every case has a seed of its own, which is printed when the case fails; `--seed` with that
number, `--only` and `--cases 1` repeats it. Prints a table, and ends with 1 if a case failed.
"""

import argparse
import collections
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import crowds
import disks
import flips
import kills
import stops
from program import Failed
from training import Training

ROOT = pathlib.Path(__file__).resolve().parents[2]

# How many cases of each drill are run, by size.
DRILLS = {
    kills.kill_a_rank: (0, 10, 75),
    kills.kill_in_a_save: (1, 10, 60),
    kills.kill_the_launcher: (0, 10, 60),
    stops.stop_one_of_two: (1, 8, 40),
    stops.stop_one_of_four: (0, 5, 40),
    disks.full_disk: (0, 10, 60),
    disks.broken_disk: (0, 10, 100),
    disks.hanging_disk: (0, 4, 20),
    disks.broken_preprocess: (1, 20, 100),
    flips.flips_in_checkpoints: (1, 5, 20),
    flips.flips_that_load: (0, 10, 60),
    flips.flips_in_datasets: (1, 5, 20),
    crowds.launches_at_once: (1, 1, 3),
    crowds.trainings_at_once: (0, 1, 3),
    crowds.stalled_reader: (1, 5, 20),
}
OVER_NCCL = (
    kills.kill_a_rank, kills.kill_in_a_save, kills.kill_the_launcher, stops.stop_one_of_two,
    stops.stop_one_of_four)
SIZES = ("short", "middle", "long")
CROWDS = {"short": 8, "middle": 50, "long": 50}


class Drill:
    """What a case of a drill works with."""

    def __init__(self, training, shim, crowd):
        self.training = training
        self.crowd = crowd
        self.random = random.Random()
        self.counts = collections.Counter()
        self.times = {}
        self._shim = shim

    def begin(self, seed):
        self.random.seed(seed)
        self.shim_met().unlink(missing_ok=True)

    def count(self, what, number):
        self.counts[what] += number

    def longest(self, what, seconds):
        self.times[what] = max(self.times.get(what, 0), seconds)

    def shim(self, action, calls, at, folder, rank=None):
        """The environment for one fault; see shim.c."""
        environment = {
            "LD_PRELOAD": str(self._shim), "CAIRN_SHIM": f"{action}:{calls}:{at}:{folder}",
            "CAIRN_SHIM_MET": str(self.shim_met())}
        if rank is not None:
            environment["CAIRN_SHIM_RANK"] = str(rank)
        return environment

    def shim_met(self):
        return self.training.folder / "shim-met"


def run_cases(drill, function, cases, seed):
    """Runs the cases of one drill; returns its line of the table and the number of failures."""
    failures = 0
    drill.counts.clear()
    drill.times.clear()
    started = time.monotonic()
    for case in range(cases):
        own = seed + case
        drill.begin(f"{function.__name__} {own}")
        try:
            function(drill)
        except Failed as failure:
            failures += 1
            print(f"FAILED {function.__name__} --seed {own}: {failure}", flush=True)
        except Exception:  # a fault of the drill itself; the others go on
            failures += 1
            print(f"FAILED {function.__name__} --seed {own}:\n{traceback.format_exc()}", flush=True)
    told = [f"{number} {what}" for what, number in drill.counts.items()]
    told += [f"{what} at most {seconds:.1f} s" for what, seconds in drill.times.items()]
    row = (function.__name__, cases, cases - failures, f"{time.monotonic() - started:.0f} s",
           ", ".join(told))
    return row, failures


def print_table(rows):
    head = ("drill", "cases", "passed", "time", "counted")
    rows = [head, *[tuple(map(str, row)) for row in rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for number, row in enumerate(rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def build_shim(folder):
    shim = folder / "shim.so"
    subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", "-o", shim, ROOT / "tools/drills/shim.c", "-ldl"],
        check=True)
    return shim


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--size", choices=SIZES, default="short")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="this drill alone; may be repeated")
    parser.add_argument("--cases", type=int, help="so many cases of each drill")
    parser.add_argument("--share-gpu", action="store_true",
                        help="the ranks share one GPU and use NCCL: kills and stops alone")
    parser.add_argument("--cairn", type=pathlib.Path,
                        help="the program (default: bin/cairn of the build)")
    arguments = parser.parse_args()
    drills = {function: sizes for function, sizes in DRILLS.items()
              if not arguments.share_gpu or function in OVER_NCCL}
    names = [function.__name__ for function in drills]
    for name in arguments.only or ():
        if name not in names:
            parser.error(f"no drill {name}; there are {', '.join(names)}")
    cairn = (arguments.cairn or arguments.build / "bin/cairn").resolve()
    if not cairn.exists():
        parser.error(f"{cairn} is not there: build it, or name its folder with --build")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-drills-"))
    failures = 0
    rows = []
    try:
        training = Training(cairn, folder, arguments.share_gpu)
        drill = Drill(training, build_shim(folder), CROWDS[arguments.size])
        for function, sizes in drills.items():
            cases = arguments.cases or sizes[SIZES.index(arguments.size)]
            if arguments.only and function.__name__ not in arguments.only:
                cases = 0
            if cases:
                row, failed = run_cases(drill, function, cases, arguments.seed)
                failures += failed
                rows.append(row)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print_table(rows)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
