#!/usr/bin/env python3
"""Prints the losses of iterations 6 to 15 that PyTorch itself has when it goes on from the golden folder of FSDP2 in
tests/golden/checkpoints_core/llama_dcp, on the samples of continued/data in Megatron's order: for continued/losses.json.

    pip install torch==2.11.0 numpy
    tools/golden/dcp_continued.py FOLDER_OF_INDICES   what `cairn pretrain --data-cache-path` left, see continue_test.cpp
"""

import math
import pathlib
import sys

import numpy
import torch
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F

root = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "checkpoints_core"
LAYERS, HIDDEN, HEADS, GROUPS, LENGTH, BATCH = 1, 16, 4, 2, 14, 4
SIZE = HIDDEN // HEADS


def read(folder):
    reader = dcp.FileSystemReader(folder)
    tensors = {name: torch.empty(info.size, dtype=info.properties.dtype)
               for name, info in reader.read_metadata().state_dict_metadata.items() if hasattr(info, "size")}
    dcp.load(tensors, storage_reader=reader, no_dist=True)
    return tensors


def samples(indices):
    """Megatron's GPT samples: LENGTH + 1 ids from the documents in the order of doc_idx."""
    arrays = {name: numpy.load(next(indices.glob(f"*{name}.npy"))) for name in ("document_index", "sample_index", "shuffle_index")}
    ids = numpy.fromfile(root / "continued" / "data.bin", numpy.uint16)
    header = (root / "continued" / "data.idx").read_bytes()
    count = int.from_bytes(header[18:26], "little")
    sizes = numpy.frombuffer(header, numpy.int32, count, 34)
    begins = numpy.concatenate([[0], numpy.cumsum(sizes)])
    for place in arrays["shuffle_index"]:
        (document, offset), (last, end) = arrays["sample_index"][place], arrays["sample_index"][place + 1]
        parts = []
        while document <= last:
            at = arrays["document_index"][document]
            stop = end + 1 if document == last else sizes[at]
            parts.append(ids[begins[at] + offset:begins[at] + stop])
            document, offset = document + 1, 0
        yield torch.from_numpy(numpy.concatenate(parts).astype(numpy.int64))


def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def turned(x):  # torchtitan turns pairs of neighbours
    angles = torch.arange(x.shape[2])[:, None] / 10000 ** (torch.arange(0, SIZE, 2) / SIZE)
    even, odd = x[..., ::2], x[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def logits(w, ids):
    x = w["tok_embeddings.weight"][ids]
    for i in range(LAYERS):
        own = {name.split(".")[-2]: value for name, value in w.items() if name.startswith(f"layers.{i}.")}
        y = norm(x, own["attention_norm"])
        q, k, v = (F.linear(y, own[name]).unflatten(-1, (-1, SIZE)).transpose(1, 2) for name in ("wq", "wk", "wv"))
        k, v = (t.repeat_interleave(HEADS // GROUPS, 1) for t in (turned(k), v))
        y = F.scaled_dot_product_attention(turned(q), k, v, is_causal=True)
        x = x + F.linear(y.transpose(1, 2).flatten(-2), own["wo"])
        y = norm(x, own["ffn_norm"])
        x = x + F.linear(F.silu(F.linear(y, own["w1"])) * F.linear(y, own["w3"]), own["w2"])
    return F.linear(norm(x, w["norm.weight"]), w.get("output.weight", w.get("lm_head.weight")))


def rate(iteration):  # 2 iterations of warm-up, a cosine to 0.001 at 20
    return 0.001 + (0.02 - 0.001) * (math.cos(math.pi * (iteration - 2) / 18) + 1) / 2


def main():
    saved = read(root / "llama_dcp" / "fsdp2" / "step-5")
    w = {name: value.requires_grad_() for name, value in saved.items() if not name.startswith("optimizer.") and value.is_floating_point()
         and f"optimizer.state.{name}.exp_avg" in saved}
    optimizer = torch.optim.AdamW([{"params": [v for v in w.values() if v.dim() > 1], "weight_decay": 0.1},
                                   {"params": [v for v in w.values() if v.dim() == 1], "weight_decay": 0.0}], betas=(0.9, 0.95))
    for name, value in w.items():
        state = {kind: saved[f"optimizer.state.{name}.{kind}"] for kind in ("exp_avg", "exp_avg_sq")}
        optimizer.state[value] = {"step": torch.tensor(5.0), **state}
    data = samples(pathlib.Path(sys.argv[1]))
    for _ in range(5 * BATCH):
        next(data)
    losses = []
    for iteration in range(5, 15):
        batch = torch.stack([next(data) for _ in range(BATCH)])
        loss = F.cross_entropy(logits(w, batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        losses.append(round(loss.item(), 6))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate(iteration)
        optimizer.step()
    print(losses)


if __name__ == "__main__":
    main()
