"""A small GPT over the characters of a text, as gptlite_deepspeed.py wants it."""

import os

import torch
from torch import nn
from torch.nn import functional as F

n_layer = int(os.environ.get("GPTLITE_LAYERS", "2"))
n_embd = int(os.environ.get("GPTLITE_WIDTH", "64"))
n_head = 4
block_size = 32
dropout = 0.1

text = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n" * 8
characters = sorted(set(text))
vocab_size = len(characters)
train_data = torch.tensor([characters.index(c) for c in text])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(n_embd)
        self.qkv = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.proj = nn.Linear(n_embd, n_embd)
        self.ln2 = nn.LayerNorm(n_embd)
        self.ffwd = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(dropout)
        )

    def forward(self, x):
        q, k, v = self.qkv(self.ln1(x)).view(*x.shape[:2], 3, n_head, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.ffwd(self.ln2(x))


class GPTlite(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocab_size, n_embd)
        self.position_embedding_table = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size)

    def embed(self, idx):
        positions = torch.arange(idx.shape[1], device=idx.device)
        return self.token_embedding_table(idx) + self.position_embedding_table(positions)

    def forward(self, idx):
        logits = self.lm_head(self.ln(self.blocks(self.embed(idx))))
        return torch.swapaxes(logits, 1, 2)
