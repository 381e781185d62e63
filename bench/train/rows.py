"""rows.py BUILD: the JSON list of measurements that the peers' harness runs beside its own.

Groups: train (a training step in one process; the peers of it are the harness's own), product (our product of
matrices against libtorch's), parallel (a model that two ranks share against what its messages allow)."""
import json
import sys


# As `cairn` and `cairn launch` start what they start.
STARTED = {"MIMALLOC_PURGE_DELAY": "-1"}


def main(build):
    rows = [{"group": "train", "case": case, "peer": "cairn", "ranks": 1, "threads": 2,
             "command": [f"{build}/bin/train_bench", case], "env": STARTED} for case in ("124M", "small", "lite")]
    rows += [{"group": "product", "case": f"{threads} threads", "peer": "cairn", "ranks": 1, "threads": threads,
              "command": [f"{build}/bin/product_bench"], "env": STARTED} for threads in (1, 2)]
    rows += [{"group": "parallel", "case": f"{kind} {case}", "peer": "cairn", "ranks": 2, "threads": 1,
              "command": [f"{build}/bin/parallel_bench", kind, case], "env": STARTED}
             for kind in ("tensor", "pipeline") for case in ("124M", "small")]
    json.dump(rows, sys.stdout, indent=1)


main(*sys.argv[1:])
