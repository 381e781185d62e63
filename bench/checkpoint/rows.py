"""rows.py BUILD PEERS: the JSON list of measurements that the peers' harness runs beside its own.

Group checkpoint, with the harness's cases: save (a new file, with fsync), load (from the page cache), load-cold. The
files are those of GPT-2 124M with both moments of Adam, 1.5 GB. What else saves or loads them becomes one more row: a
program that prints {"value": GB/s, "unit": "GB/s", "best": …, "worst": …}."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main(build, peers):
    home = os.environ["PEERS_HOME"]
    python, bench, folder = f"{home}/venv/bin/python", f"{build}/bin", f"{home}/data"
    rows = []

    def row(case, peer, *command):
        rows.append({"group": "checkpoint", "case": case, "peer": peer, "command": list(command), "env": {"PEERS": peers}})

    for peer in ("torch", "safetensors"):
        row("save", f"{peer}, no fsync", python, f"{HERE}/peer.py", peer)
    for case in ("save", "load", "load-cold"):
        row(case, "cairn disk", f"{bench}/checkpoint_disk_bench", case, folder)
    json.dump(rows, sys.stdout, indent=1)


main(*sys.argv[1:])
