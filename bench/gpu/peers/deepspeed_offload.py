#!/usr/bin/env python3
"""deepspeed_offload.py [--layers 50] [--hidden 4096] [--batch 16] [--steps 4] [--device cuda|cpu]

Trains a GPT with DeepSpeed's ZeRO-Offload: stage 2, bf16, activations computed again, the update
by DeepSpeedCPUAdam. All of the optimizer's states are in the CPU's memory, in bf16 (DeepSpeed's
`bf16_master_weights_and_grads` and `bf16_optimizer_states`), because 10 billion parameters do not
fit into 128 GB with its fp32 states (16 bytes each). Prints one line: RESULT {json}.

DeepSpeed 0.19 has to be importable; it compiles its CPU Adam when it is first used.
"""

import argparse
import json
import os
import time

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from training import TOKENS, VOCABULARY

SEQUENCE = 1024
WARM_UP = 2


class Block(torch.nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = torch.nn.LayerNorm(hidden)
        self.query_key_value = torch.nn.Linear(hidden, 3 * hidden)
        self.project = torch.nn.Linear(hidden, hidden)
        self.norm2 = torch.nn.LayerNorm(hidden)
        self.up = torch.nn.Linear(hidden, 4 * hidden)
        self.down = torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, tokens, hidden = x.shape
        parts = self.query_key_value(self.norm1(x)).view(batch, tokens, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, tokens, hidden))
        inner = functional.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + self.down(inner)


class Gpt(torch.nn.Module):
    def __init__(self, layers, hidden, heads):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, hidden)
        self.positions = torch.nn.Embedding(SEQUENCE, hidden)
        self.blocks = torch.nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(hidden)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        places = torch.arange(SEQUENCE, device=tokens.device)
        x = self.words(tokens[:, :-1]) + self.positions(places)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        scores = functional.linear(self.norm(x), self.words.weight)
        return functional.cross_entropy(
            scores.view(-1, VOCABULARY).float(), tokens[:, 1:].reshape(-1))


def parameter_groups(model, count):
    """The parameters in some groups of about the same size, in their order.

    DeepSpeed keeps a group in one piece of page-locked memory, and PyTorch takes the next power of
    two bytes for it: 10 billion parameters in one piece would take 34 GB instead of 20.
    """
    groups = [[] for _ in range(count)]
    total = sum(each.numel() for each in model.parameters())
    passed = 0
    for parameter in model.parameters():
        groups[min(count - 1, passed * count // total)].append(parameter)
        passed += parameter.numel()
    return [{"params": group} for group in groups if group]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--layers", type=int, default=50)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4, help=f"measured, after {WARM_UP} that warm up")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29517")
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    import deepspeed

    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(options.device):
        model = Gpt(options.layers, options.hidden, options.heads)
    torch.set_default_dtype(torch.float32)
    parameters = sum(each.numel() for each in model.parameters())
    engine, _, _, _ = deepspeed.initialize(
        model=model, model_parameters=parameter_groups(model, 6), config={
            "train_micro_batch_size_per_gpu": options.batch,
            "gradient_accumulation_steps": 1,
            "gradient_clipping": 1.0,
            "steps_per_print": 1000,
            "bf16": {"enabled": True, "bf16_master_weights_and_grads": True,
                     "bf16_optimizer_states": True},
            "optimizer": {"type": "AdamW", "params": {
                "lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},
            "zero_optimization": {
                "stage": 2, "overlap_comm": True, "contiguous_gradients": True,
                "offload_optimizer": {"device": "cpu", "pin_memory": True}},
        })
    batches = [torch.randint(TOKENS, (options.batch, SEQUENCE + 1), device=options.device)
               for _ in range(4)]
    times, losses = [], []
    for step in range(WARM_UP + options.steps):
        begin = time.perf_counter()
        loss = engine(batches[step % len(batches)])
        engine.backward(loss)
        engine.step()
        losses.append(round(loss.item(), 4))
        if options.device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        print(f"step {step}: loss {losses[-1]}, {times[-1]:.3f} s", flush=True)
    seconds = sorted(times[WARM_UP:])[options.steps // 2]
    print("RESULT", json.dumps({
        "peer": f"DeepSpeed {deepspeed.__version__} ZeRO-Offload", "parameters": parameters,
        "batch": options.batch, "seconds": round(seconds, 3),
        "tokens_per_second": round(options.batch * SEQUENCE / seconds),
        "tflops": round(6 * parameters * options.batch * SEQUENCE / seconds / 1e12, 1),
        "losses": losses}), flush=True)


if __name__ == "__main__":
    main()
