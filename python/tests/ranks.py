"""Runs a function of a test module in real processes, each a rank of one job."""

import contextlib
import importlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile

import torch


def _free_port():
    # Below the ports of connections: one of those may be taken before rank 0 listens there.
    while True:
        port = random.randrange(10000, 32768)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def _place(rank, ranks):
    """The environment of a rank."""
    place = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks)}
    if 0 < torch.cuda.device_count() < ranks:
        # As `cairn launch --share_gpu` has it: each rank is a host of its own.
        place.update(
            LOCAL_RANK="0",
            LOCAL_WORLD_SIZE="1",
            NODE_RANK=str(rank),
            GROUP_RANK=str(rank),
            GROUP_WORLD_SIZE=str(ranks),
            NCCL_HOSTID=f"rank-{rank}",
            NCCL_NET="Socket",
            NCCL_SOCKET_IFNAME="lo",
            NCCL_P2P_DISABLE="1",
            NCCL_SHM_DISABLE="1",
        )
    return place


def run(function, ranks, *arguments, timeout=180):
    """Calls function(*arguments) on every rank and returns what each returned, which
    must be JSON. The output of a rank that fails is in the error. Where there are fewer
    GPUs than ranks, but not none, all ranks use the first."""
    with tempfile.TemporaryDirectory() as folder:
        port = str(_free_port())
        processes = []
        for rank in range(ranks):
            environment = dict(os.environ, OMP_NUM_THREADS="1")
            if ranks > 1:
                environment.update(_place(rank, ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            output = os.path.join(folder, f"{rank}.json")
            log = open(os.path.join(folder, f"{rank}.log"), "w+", encoding="utf-8")
            command = [sys.executable, __file__, function.__module__, function.__name__, output, json.dumps(arguments)]
            processes.append((subprocess.Popen(command, env=environment, stdout=log, stderr=log), output, log))
        results = []
        try:
            for process, output, log in processes:
                status = process.wait(timeout)
                log.seek(0)
                if status != 0:
                    raise AssertionError(f"a rank ended with {status}:\n{log.read()}")
                with open(output, encoding="utf-8") as file:
                    results.append(json.load(file))
        finally:
            for process, _, log in processes:
                process.kill()
                process.wait()
                log.close()
        return results


def _main():
    module, function, output, arguments = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    result = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    with open(output, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    _main()
