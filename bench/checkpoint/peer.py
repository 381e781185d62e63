"""peer.py PEER: the harness's checkpoint/save without fsync, which is how people call it: returns with the bytes in memory.

PEER: torch (torch.save) or safetensors. What the disk has still to do is waited for, untimed, before the next save."""
import os
import sys

sys.path.insert(0, os.environ["PEERS"])
import common as c  # noqa: E402

peer = sys.argv[1]
path = f"{c.HOME}/data/checkpoint-unsynced"


def state():
    import torch
    model = c.nanogpt("124M")
    parts = {"model": {n: p.detach() for n, p in model.named_parameters()}}
    for moment in ("exp_avg", "exp_avg_sq"):
        parts[moment] = {n: torch.randn_like(p) for n, p in parts["model"].items()}
    return {f"{part}.{n}": t for part, tensors in parts.items() for n, t in tensors.items()}


def save(tensors):
    if peer == "torch":
        import torch
        torch.save(tensors, path)
    else:
        from safetensors.torch import save_file
        save_file(tensors, path)


tensors = state()
gigabytes = sum(t.nbytes for t in tensors.values()) / 1e9
seconds = c.timed(lambda i: save(tensors), 1, 1 if c.QUICK else 5, before=lambda i: c.remove(path))
c.remove(path)
c.emit_rate(gigabytes, "GB/s", seconds, gigabytes=gigabytes)
