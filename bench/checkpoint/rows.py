"""rows.py BUILD PEERS: the JSON list of measurements that the peers' harness runs beside its own.

Group checkpoint, with the harness's cases: save (a new file, with fsync), load (from the page cache), load-cold. The
files are those of GPT-2 124M with both moments of Adam, 1.5 GB. What else saves or loads them becomes one more row: a
program that prints {"value": GB/s, "unit": "GB/s", "best": …, "worst": …}.

Case step: what a save takes from the training that goes on beside it, in % of a step.

A row of the engine has its own folder, which save fills and the loads read: "1 to 2 ranks" loads what one rank saved on
two, with another layout."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main(build, peers):
    home = os.environ["PEERS_HOME"]
    python, bench, folder = f"{home}/venv/bin/python", f"{build}/bin", f"{home}/data"
    rows = []

    def row(case, peer, *command, ranks=1):
        rows.append({"group": "checkpoint", "case": case, "peer": peer, "command": list(command), "ranks": ranks,
                     "threads": 2 // ranks, "env": {"PEERS": peers}})

    def engine(case, saved_by, ranks):
        peer = f"engine, {ranks} rank" + "s" * (ranks > 1) if saved_by == ranks else f"engine, {saved_by} to {ranks} ranks"
        row(case, peer, f"{bench}/checkpoint_engine_bench", case, f"{folder}/engine-{saved_by}", ranks=ranks)

    for peer in ("torch", "safetensors"):
        row("save", f"{peer}, no fsync", python, f"{HERE}/peer.py", peer)
    for case in ("save", "load", "load-cold"):
        row(case, "cairn disk", f"{bench}/checkpoint_disk_bench", case, folder)
        for ranks in (1, 2):
            engine(case, ranks, ranks)
    for case in ("load", "load-cold"):
        for ranks in (1, 2):
            engine(case, 3 - ranks, ranks)
    row("step", "engine, 1 rank", f"{bench}/checkpoint_engine_bench", "step", f"{folder}/engine-step")
    json.dump(rows, sys.stdout, indent=1)


main(*sys.argv[1:])
