"""adam_peer.py PEER [MILLIONS]: AdamW on one fp32 tensor of so many 2^20 elements, threads from OMP_NUM_THREADS.

PEER: torch (as PyTorch chooses on a CPU), torch-fused, or deepspeed (DeepSpeedCPUAdam, as ZeRO-Offload uses it).
GB/s count what an update has to read and write: 28 bytes for each element."""
import os
import statistics
import sys
import time

import torch

QUICK = bool(os.environ.get("QUICK"))
VALUES = dict(lr=6e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)


def optimizer_of(peer, parameter):
    if peer == "deepspeed":
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        return DeepSpeedCPUAdam([parameter], adamw_mode=True, **VALUES)
    return torch.optim.AdamW([parameter], **VALUES, **({"fused": True} if peer == "torch-fused" else {}))


def main(peer, millions="32"):
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    count = int(millions) << 20
    parameter = torch.nn.Parameter(torch.randn(count))
    parameter.grad = torch.randn(count) * 1e-3
    optimizer = optimizer_of(peer, parameter)
    seconds = []
    for i in range(4 if QUICK else 18):
        start = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    seconds = sorted(seconds[2:])
    gigabytes = count * 28e-9
    print('{"value": %.4g, "unit": "GB/s", "best": %.4g, "worst": %.4g, "samples": %d}' % (
        gigabytes / statistics.median(seconds), gigabytes / seconds[0], gigabytes / seconds[-1], len(seconds)))


main(*sys.argv[1:])
