#!/usr/bin/env python3
"""Writes tests/golden/moe/python_layer.json: losses of the net in python/tests/moe_nets.py
with the layer of the real DeepSpeed.

    DS_ACCELERATOR=cpu tools/golden/python_moe.py tests/golden/moe/python_layer.json

Needs torch and deepspeed.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python", "tests"))


def train(output):
    """One rank of the job that the environment describes."""
    import deepspeed.comm.torch
    import moe_nets
    from deepspeed.moe.layer import MoE
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer as split

    deepspeed.comm.torch.build_shm_op = lambda: None  # would compile for a minute
    deepspeed.init_distributed("gloo")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    losses = {}
    for name in moe_nets.LAYERS:
        net = moe_nets.net(MoE, ranks, rank, name)
        groups = split({"params": list(net.parameters()), "name": "all"})
        engine = deepspeed.initialize(model=net, model_parameters=groups, config=moe_nets.CONFIG)[0]
        losses[name] = moe_nets.losses(engine, rank)
    with open(f"{output}.{rank}", "w", encoding="utf-8") as file:
        json.dump(losses, file)


def run(ranks):
    """Losses by layer and rank, with experts over that many ranks."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "losses")
        # It compiles functions of a line, for minutes.
        environment = dict(os.environ, TORCHDYNAMO_DISABLE="1", WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OMP_NUM_THREADS="1")
        started = [
            subprocess.Popen(
                [sys.executable, __file__, "--rank", output], env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank))
            )
            for rank in range(ranks)
        ]
        if any([process.wait() for process in started]):
            sys.exit("a rank failed")
        of_ranks = [json.load(open(f"{output}.{rank}", encoding="utf-8")) for rank in range(ranks)]
    return {name: [losses[name] for losses in of_ranks] for name in of_ranks[0]}


def main():
    if sys.argv[1] == "--rank":
        train(sys.argv[2])
        return
    of_ranks = []
    for ranks in (1, 2):
        rows = [
            f'  "{name}": {json.dumps([[round(loss, 6) for loss in losses] for losses in by_rank])}'
            for name, by_rank in run(ranks).items()
        ]
        of_ranks.append(f' "{ranks}": {{\n' + ",\n".join(rows) + "\n }")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(of_ranks) + "\n}\n")


if __name__ == "__main__":
    main()
