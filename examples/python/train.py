"""Trains a small GPT of plain torch, at any ZeRO stage and on any number of ranks:

    python train.py
    cairn launch --num_gpus 2 train.py --stage 3
    torchrun --nproc-per-node 2 train.py --stage 3
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

import cairn

TEXT = "the quick brown fox jumps over the lazy dog and runs away from the quick brown bear. " * 40


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        x = x + self.mlp(self.norm2(x))
        return x


class Gpt(nn.Module):
    def __init__(self, words: int, length: int, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", type=int, default=0, help="ZeRO stage")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--local_rank", type=int, default=-1)
    parser = cairn.add_config_arguments(parser)
    args = parser.parse_args()

    letters = sorted(set(TEXT))
    ids = torch.tensor([letters.index(letter) for letter in TEXT])
    length = 32
    rows = ids[: len(ids) // (length + 1) * (length + 1)].view(-1, length + 1)
    data = torch.utils.data.TensorDataset(rows[:, :-1], rows[:, 1:])

    torch.manual_seed(1)
    config = args.deepspeed_config or {
        "train_micro_batch_size_per_gpu": 8,
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}},
        "zero_optimization": {"stage": args.stage},
    }
    net = Gpt(len(letters), length)
    engine, _, loader, _ = cairn.initialize(net, config, training_data=data)
    batches = cairn.utils.RepeatingLoader(loader)
    for step in range(1, args.steps + 1):
        loss = engine.train_batch(batches)
        if step % 10 == 0 and engine.global_rank == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
