"""A small GPT in plain torch, and its data."""

import torch
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH, LENGTH, MICRO = 64, 32, 8, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(*x.shape[:2], 3, 2, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """A GPT whose head is its embedding."""

    def __init__(self, checkpoint=None):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embedding.weight
        self.checkpoint = checkpoint

    def forward(self, tokens, targets=None):
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = self.checkpoint(block, x) if self.checkpoint else block(x)
        scores = self.head(self.norm(x))
        if targets is None:
            return scores
        return F.cross_entropy(scores.flatten(0, 1).float(), targets.flatten())


def fresh(checkpoint=None):
    torch.manual_seed(17)
    return Gpt(checkpoint)


def record_blocks(blocks, device="cpu", make_graphs=torch.cuda.make_graphed_callables):
    """Makes blocks CUDA graphs."""
    # A graph's input is in the memory of its sample, so each has one of its own.
    samples = [torch.randn(MICRO, LENGTH, WIDTH, device=device, requires_grad=True) for _ in blocks]
    make_graphs(tuple(blocks), tuple((sample,) for sample in samples))


def batch(step, number):
    """Inputs and targets of a micro batch, the same on every machine."""
    tokens = (torch.arange(MICRO * (LENGTH + 1)).view(MICRO, -1) * (7 + step) + number * 11 + step * 3) % WORDS
    return tokens[:, :-1], tokens[:, 1:]


def config(stage=0, accumulation=1, **changes):
    settings = {
        "train_micro_batch_size_per_gpu": MICRO,
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": 0.5,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.1}},
        "zero_optimization": {
            "stage": stage,
            "reduce_bucket_size": 4000,
            "stage3_param_persistence_threshold": 20,
        },
    }
    settings.update(changes)
    return {name: value for name, value in settings.items() if value is not None}


def plain_losses(passes, steps=6, make_optimizer=None, make_schedule=None, device="cpu"):
    """What torch alone computes, with so many micro batches a step."""
    net = fresh().to(device)
    parameters = list(net.parameters())
    optimizer = make_optimizer(parameters) if make_optimizer else torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1)
    schedule = make_schedule(optimizer) if make_schedule else None
    losses = []
    for step in range(steps):
        total = 0.0
        optimizer.zero_grad()
        for number in range(passes):
            loss = net(*(each.to(device) for each in batch(step, number)))
            (loss / passes).backward()
            total += loss.item() / passes
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        if schedule:
            schedule.step()
        losses.append(total)
    return losses
