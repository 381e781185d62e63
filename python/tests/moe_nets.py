"""A small net with layers of experts, for Cairn and for the real DeepSpeed: the same
training whichever of them has the layer (tools/golden/python_moe.py)."""

import math

import torch
from torch.nn import functional as F

WORDS, WIDTH, EXPERTS, LENGTH, MICRO = 31, 16, 4, 12, 2

# By name: arguments of the layer.
LAYERS = {
    "top1": dict(k=1, capacity_factor=1.0, min_capacity=2),
    "top1_in_order": dict(k=1, capacity_factor=4.0, use_rts=False),
    "top1_jitter": dict(k=1, noisy_gate_policy="Jitter"),
    "top1_rsample": dict(k=1, noisy_gate_policy="RSample"),
    "top1_all": dict(k=1, drop_tokens=False, use_rts=False),
    "top2": dict(k=2, capacity_factor=0.8),
    "top2_in_order": dict(k=2, capacity_factor=0.8, top2_2nd_expert_sampling=False),
    "top3": dict(k=3, capacity_factor=0.7),
    "residual": dict(k=1, use_residual=True),
}


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 24), torch.nn.GELU(), torch.nn.Linear(24, WIDTH))


class Net(torch.nn.Module):
    """An embedding, two layers of experts, and a head. `kind` is the class of the layer."""

    def __init__(self, kind, ep_size, **layer):
        super().__init__()
        self.embedding = torch.nn.Embedding(WORDS, WIDTH)
        # No two tokens are alike: nobody says which of them a full expert drops.
        self.position = torch.nn.Parameter(torch.zeros(MICRO, LENGTH, WIDTH))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.first = kind(WIDTH, mlp(), num_experts=EXPERTS, ep_size=ep_size, **layer)
        self.second = kind(WIDTH, mlp(), num_experts=EXPERTS, ep_size=ep_size, **layer)
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens, targets):
        x = self.embedding(tokens) + self.position
        balance = 0.0
        for layer in (self.first, self.second):
            mixed, one, counts = layer(self.norm(x))
            x = x + mixed
            balance = balance + one
        self.counts = counts
        return F.cross_entropy(self.head(x).flatten(0, 1).float(), targets.flatten()) + 0.05 * balance


def net(kind, ep_size, rank, name):
    """The net with the same weights in every library and on any number of ranks."""
    made = Net(kind, ep_size, **LAYERS[name])
    here = EXPERTS // ep_size
    for part in (made.first, made.second):
        for number, expert in enumerate(part.deepspeed_moe.experts.deepspeed_experts):
            _fill(expert, 1000 * (rank % ep_size * here + number + 1))
    apart = [(name, p) for name, p in made.named_parameters() if "deepspeed_experts" not in name]
    for number, (_, parameter) in enumerate(apart):
        _fill_one(parameter, number)
    return made


def _fill(module, seed):
    for number, parameter in enumerate(module.parameters()):
        _fill_one(parameter, seed + number)


def _fill_one(parameter, seed):
    with torch.no_grad():
        values = torch.sin(torch.arange(parameter.numel(), dtype=torch.float64) * 1.37 + seed * 0.71)
        parameter.copy_((values / math.sqrt(parameter.shape[-1])).view_as(parameter))


def batch(step, rank):
    tokens = (torch.arange(MICRO * (LENGTH + 1)).view(MICRO, -1) * (5 + step) + rank * 13 + step * 3) ** 2 % WORDS
    return tokens[:, :-1], tokens[:, 1:]


def losses(engine, rank, steps=5):
    """Losses of this rank, with the random numbers of each pass from a seed."""
    result = []
    for step in range(steps):
        torch.manual_seed(100 * step + rank)
        loss = engine(*batch(step, rank))
        engine.backward(loss)
        engine.step()
        result.append(loss.item())
    return result


CONFIG = {
    "train_micro_batch_size_per_gpu": MICRO,
    "gradient_clipping": 0.0,
    # Adam would make much of a gradient that is all but zero.
    "optimizer": {"type": "SGD", "params": {"lr": 0.3, "momentum": 0.9}},
    "zero_optimization": {"stage": 0},
}
