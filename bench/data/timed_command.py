"""timed_command.py [options] -- COMMAND…: wall time of a whole command, start-up included.

--rounds N        runs, after one that is not counted when N > 1
--text CORPUS     the result in MB/s of the texts in this JSONL; without it, in seconds
--remove PATH     goes away before every run; may be given several times
--same OURS PEER  compares two files afterwards and says so; missing PEER: "not compared"
"""
import argparse
import filecmp
import json
import os
import shutil
import statistics
import subprocess
import sys
import time


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def megabytes(corpus):
    with open(corpus, encoding="utf-8") as f:
        return sum(len(json.loads(line)["text"].encode()) for line in f) / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--text")
    parser.add_argument("--remove", action="append", default=[])
    parser.add_argument("--same", nargs=2, action="append", default=[])
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    seconds = []
    for _ in range(args.rounds + (args.rounds > 1)):
        for path in args.remove:
            remove(path)
        start = time.perf_counter()
        subprocess.run(args.command, check=True, stdout=sys.stderr)
        seconds.append(time.perf_counter() - start)
    seconds = seconds[-args.rounds:]
    out = {"value": statistics.median(seconds), "unit": "s", "best": min(seconds), "worst": max(seconds), "samples": len(seconds)}
    if args.text:
        mb = megabytes(args.text)
        out.update(unit="MB/s", megabytes=mb, **{key: mb / out[key] for key in ("value", "best", "worst")})
    if args.same:
        out["output"] = ("not compared" if not all(os.path.exists(peer) for _, peer in args.same)
                         else "equal" if all(filecmp.cmp(ours, peer, shallow=False) for ours, peer in args.same)
                         else "DIFFERENT")
    print(json.dumps(out))


main()
