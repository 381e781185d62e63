"""rows.py BUILD PEERS: the JSON list of measurements that the peers' harness runs beside its own.

Groups: adam (the update alone), train1 (one process with a rank's share of the batch, which what two ranks add is
counted from), train2 (two ranks; the peers of it are the harness's own), overhead (microseconds on the host)."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main(build, peers):
    home = os.environ["PEERS_HOME"]
    python, bench = f"{home}/venv/bin/python", f"{build}/bin"
    environment = {"PEERS": peers, "DS_ACCELERATOR": "cpu", "TORCH_EXTENSIONS_DIR": f"{home}/extensions"}
    rows = []

    def row(group, case, peer, *command, ranks=1, threads=1):
        rows.append({"group": group, "case": case, "peer": peer, "command": list(command), "ranks": ranks,
                     "threads": threads, "env": environment})

    for threads in (1, 2):
        case = f"{threads} thread" + "s" * (threads > 1)
        for peer in ("torch", "torch-fused", "deepspeed"):
            row("adam", case, peer, python, f"{HERE}/adam_peer.py", peer, threads=threads)
        for kinds in ("fp32-none", "fp32-bf16", "bf16-bf16", "fp16-fp16"):
            row("adam", case, f"cairn {kinds}", f"{bench}/optim_adam_bench", kinds, str(threads), threads=threads)

    for case in ("small", "small-comm"):
        for what in ("compute", "step", "fused"):
            row("train1", case, f"torch {what}", python, f"{HERE}/plain_peer.py", case, what)
        row("train1", case, "torch step, two at once", python, f"{HERE}/plain_peer.py", case, "step", ranks=2)
        for stage in ("none", "0"):
            row("train1", case, "cairn compute" if stage == "none" else "cairn step", f"{bench}/engine_bench", case, stage)
        row("train1", case, "cairn step, two at once", "env", "-u", "RANK", "-u", "WORLD_SIZE", "-u", "LOCAL_RANK",
            f"{bench}/engine_bench", case, "0", ranks=2)
        for stage in range(4):
            row("train2", case, f"cairn{stage}", f"{bench}/engine_bench", case, str(stage), ranks=2)

    for ranks in (1, 2):
        for stage in range(4):
            row("overhead", f"{ranks} rank" + "s" * (ranks > 1), f"cairn{stage}", f"{bench}/engine_overhead_bench", str(stage), ranks=ranks)
    json.dump(rows, sys.stdout, indent=1)


main(*sys.argv[1:])
