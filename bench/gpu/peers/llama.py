#!/usr/bin/env python3
"""llama.py Llama-1B BATCH [compile|eager] [--steps N] [--device cpu] [--tiny]

Trains a Llama in plain PyTorch on one GPU with random tokens and prints a line
"RESULT {json}". It is trained as torchtitan trains it with FSDP2's mixed precision:
weights, gradients and moments in fp32, everything computed in bf16, attention by cuDNN or
flash, fused AdamW, gradients clipped at 1. It needs nothing but torch.
"""

import dataclasses

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import training

# torchtitan's order
ATTENTION = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


@dataclasses.dataclass
class Shape:
    layers: int
    heads: int
    groups: int  # heads of keys and values
    hidden: int
    ffn: int
    length: int
    theta: float = 500000.0
    epsilon: float = 1e-5


MODELS = {"Llama-1B": Shape(layers=16, heads=32, groups=8, hidden=2048, ffn=8192, length=2048)}
TINY = Shape(layers=2, heads=4, groups=2, hidden=64, ffn=128, length=64)


class Linear(nn.Linear):
    """A product in the type of its input; the weight rests in fp32."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x):
        return functional.linear(x, self.weight.to(x.dtype))


class Norm(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.hidden))
        self.epsilon = shape.epsilon

    def forward(self, x):
        return functional.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.epsilon)


def rotation(shape):
    """Cosines and sines of every position, [length, 1, half a head]."""
    size = shape.hidden // shape.heads
    frequencies = shape.theta ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    angles = torch.outer(torch.arange(shape.length, dtype=torch.float32), frequencies)[:, None]
    return angles.cos(), angles.sin()


def rotate(x, cosine, sine):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.size = shape.hidden // shape.heads
        self.query = Linear(shape.hidden, shape.hidden)
        self.key = Linear(shape.hidden, shape.groups * self.size)
        self.value = Linear(shape.hidden, shape.groups * self.size)
        self.output = Linear(shape.hidden, shape.hidden)

    def forward(self, x, cosine, sine):
        heads = (*x.shape[:2], -1, self.size)
        query = rotate(self.query(x).view(heads), cosine, sine).transpose(1, 2)
        key = rotate(self.key(x).view(heads), cosine, sine).transpose(1, 2)
        value = self.value(x).view(heads).transpose(1, 2)
        with sdpa_kernel(ATTENTION, set_priority=True):
            y = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.output(y.transpose(1, 2).reshape(x.shape))


class FeedForward(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate = Linear(shape.hidden, shape.ffn)
        self.up = Linear(shape.hidden, shape.ffn)
        self.down = Linear(shape.ffn, shape.hidden)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.attention_norm = Norm(shape)
        self.attention = Attention(shape)
        self.feed_forward_norm = Norm(shape)
        self.feed_forward = FeedForward(shape)

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Module):
    def __init__(self, shape, dtype):
        super().__init__()
        self.dtype = dtype
        self.embedding = nn.Embedding(training.VOCABULARY, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape)
        self.head = Linear(shape.hidden, training.VOCABULARY)
        cosine, sine = rotation(shape)
        self.register_buffer("cosine", cosine)
        self.register_buffer("sine", sine)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens, labels):
        x = self.embedding(tokens).to(self.dtype)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        scores = self.head(self.norm(x))
        return functional.cross_entropy(scores.flatten(0, 1).float(), labels.flatten())


def main():
    options = training.command_line(__doc__, MODELS).parse_args()
    torch.manual_seed(0)
    shape = TINY if options.tiny else MODELS[options.model]
    with torch.device(options.device):
        model = Llama(shape, torch.bfloat16 if options.device == "cuda" else torch.float32)

    def draw_batch():
        texts = training.random_tokens(options, options.batch, shape.length + 1)
        return texts[:, :-1].contiguous(), texts[:, 1:].contiguous()

    training.train(options, model, lambda batch: model(*batch), draw_batch, shape.length)


if __name__ == "__main__":
    main()
