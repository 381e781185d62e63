#!/usr/bin/env python3
"""Writes tests/golden/moe/gates.json: what DeepSpeed's gates make of scores.

    tools/golden/moe_gates.py tests/golden/moe/gates.json

Needs torch and deepspeed. Scores are sines, so that a test can make the same ones;
random numbers are those of torch.manual_seed on the CPU.
"""
import json
import sys

import deepspeed
import torch
from deepspeed.moe.layer import MoE
from deepspeed.moe.sharded_moe import top1gating, top2gating

CASES = [
    # name, tokens, experts, arguments
    ("top1_room", 12, 3, dict(top_k=1, capacity_factor=3.0, min_capacity=1)),
    ("top1_random_selection", 24, 4, dict(top_k=1, capacity_factor=0.8, min_capacity=2, use_rts=True)),
    ("top1_min_capacity", 16, 8, dict(top_k=1, capacity_factor=0.5, min_capacity=4, use_rts=True)),
    ("top1_rsample", 16, 4, dict(top_k=1, capacity_factor=4.0, min_capacity=4, noisy_gate_policy="RSample")),
    ("top1_dropless", 20, 4, dict(top_k=1, capacity_factor=0.1, min_capacity=1, drop_tokens=False)),
    ("top2", 20, 4, dict(top_k=2, capacity_factor=0.7, min_capacity=2)),
    ("top2_sampled", 20, 4, dict(top_k=2, capacity_factor=1.0, min_capacity=4, sampling=True)),
    ("top2_dropless", 20, 5, dict(top_k=2, capacity_factor=0.1, min_capacity=1, drop_tokens=False)),
]


def scores_of(tokens, experts):
    return (torch.sin(torch.arange(tokens * experts, dtype=torch.float32) * 1.7) * 2).view(tokens, experts)


def gate(tokens, experts, top_k, sampling=False, use_rts=False, **rest):
    scores = scores_of(tokens, experts).requires_grad_()
    torch.manual_seed(1234)
    if top_k == 1:
        result = top1gating(scores, use_rts=use_rts, sparse_routes=True, **rest)
    else:
        # They add the noise in place, which a leaf does not take.
        result = top2gating(scores * 1, top2_2nd_expert_sampling=sampling, sparse_routes=True, **rest)
    loss, capacity, _, indices, locations, weights, counts = result
    weigh = torch.cos(torch.arange(weights.numel(), dtype=torch.float32)).view_as(weights)
    ((weights * weigh).sum() + 3 * loss).backward()
    return {
        "capacity": int(capacity),
        "experts": indices.tolist(),
        "places": locations.tolist(),
        "weights": weights.tolist(),
        "counts": counts.tolist(),
        "loss": loss.item(),
        "gradient": scores.grad.flatten().tolist(),
    }


class Expert(torch.nn.Module):
    """An MLP without biases; each copy gets its own weights below."""

    def __init__(self, hidden, ffn):
        super().__init__()
        self.up = torch.nn.Linear(hidden, ffn, bias=False)
        self.down = torch.nn.Linear(ffn, hidden, bias=False)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def waves(shape, step):
    count = int(torch.tensor(shape).prod())
    return (torch.sin(torch.arange(count, dtype=torch.float32) * step) * 0.5).view(shape)


def layer(residual, top_k):
    """A whole layer, with weights that are waves, and the gradients of its parts."""
    hidden, ffn, experts, tokens = 6, 8, 4, 16
    moe = MoE(hidden, Expert(hidden, ffn), experts, k=top_k, capacity_factor=0.75, min_capacity=2,
              use_residual=residual, use_rts=False, top2_2nd_expert_sampling=False,
              drop_tokens=top_k == 2)
    inner = moe.deepspeed_moe
    up = waves((experts, ffn, hidden), 0.9)
    down = waves((experts, hidden, ffn), 1.3)
    with torch.no_grad():
        inner.gate.wg.weight.copy_(waves((experts, hidden), 2.1))
        for i, expert in enumerate(inner.experts.deepspeed_experts):
            expert.up.weight.copy_(up[i])
            expert.down.weight.copy_(down[i])
        if residual:
            moe.mlp.up.weight.copy_(waves((ffn, hidden), 1.9))
            moe.mlp.down.weight.copy_(waves((hidden, ffn), 0.7))
            moe.coefficient.weight.copy_(waves((2, hidden), 1.1))
            moe.coefficient.bias.copy_(waves((2,), 0.3))
    x = waves((2, tokens // 2, hidden), 0.37).requires_grad_()
    output, loss, counts = moe(x)
    ((output * torch.cos(torch.arange(output.numel(), dtype=torch.float32)).view_as(output)).sum() + loss).backward()
    return {
        "output": output.flatten().tolist(),
        "loss": loss.item(),
        "input_gradient": x.grad.flatten().tolist(),
        "router_gradient": inner.gate.wg.weight.grad.flatten().tolist(),
        "up_gradient": torch.stack([e.up.weight.grad if e.up.weight.grad is not None else torch.zeros(ffn, hidden)
                                    for e in inner.experts.deepspeed_experts]).flatten().tolist(),
    }


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.8g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return value


def main():
    result = {
        "deepspeed": deepspeed.__version__,
        "torch": torch.__version__.split("+")[0],
        "gates": [{"name": name, "tokens": tokens, "experts_in_all": experts, "options": options,
                   **gate(tokens, experts, **options)} for name, tokens, experts, options in CASES],
        "layers": [{"residual": residual, "top_k": top_k, **layer(residual, top_k)}
                   for residual, top_k in ((False, 1), (True, 2))],
    }
    with open(sys.argv[1], "w") as out:
        json.dump(rounded(result), out)
        out.write("\n")


if __name__ == "__main__":
    main()
