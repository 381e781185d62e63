"""rows.py BUILD: the JSON list of measurements that the peers' harness runs beside its own.

Groups: train (a training step in one process; the peers of it are the harness's own), product (our product of
matrices against libtorch's)."""
import json
import sys


def main(build):
    rows = [{"group": "train", "case": case, "peer": "cairn", "ranks": 1, "threads": 2,
             "command": [f"{build}/bin/train_bench", case], "env": {}} for case in ("124M", "small", "lite")]
    rows += [{"group": "product", "case": f"{threads} threads", "peer": "cairn", "ranks": 1, "threads": threads,
              "command": [f"{build}/bin/product_bench"], "env": {}} for threads in (1, 2)]
    json.dump(rows, sys.stdout, indent=1)


main(*sys.argv[1:])
