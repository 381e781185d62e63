#!/usr/bin/env python3
"""engines.py NAME BATCH [compile|eager] [--steps 12] [--device cuda|cpu] [--tiny]

Trains GPT-2 124M, a plain module of PyTorch, on random tokens in one process, and prints one line:
RESULT {json}. Weights, tokens, learning rate and clipping are the same for all names:

  cairn0 … cairn3   Cairn by its Python package, in bf16, at that ZeRO stage
  ds0 … ds3         the real DeepSpeed with the same configuration, and PyTorch's fused AdamW
  fsdp              FSDP2: fully_shard of each block and of the model, fused AdamW, weights bf16 in
                    the passes and fp32 in the optimizer. It compiles blocks and the loss, as
                    torchtitan does
  torch             PyTorch alone: autocast to bf16, fused AdamW

What is named has to be importable.
"""

import argparse
import importlib
import json
import os
import sys
import time

import torch
from torch.nn import functional

from training import BATCHES, TOKENS, VOCABULARY, WARM_UP

RATE, BETAS, DECAY, CLIP = 6e-4, (0.9, 0.95), 0.1, 1.0
NAMES = [f"{library}{stage}" for library in ("cairn", "ds") for stage in range(4)] + ["fsdp", "torch"]
SIZES = {"124M": (12, 12, 768, 1024), "tiny": (2, 2, 64, 64)}  # layers, heads, width, length


class Block(torch.nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm1 = torch.nn.LayerNorm(width)
        self.query_key_value = torch.nn.Linear(width, 3 * width)
        self.project = torch.nn.Linear(width, width)
        self.norm2 = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.query_key_value(self.norm1(x)).view(batch, tokens, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


def cross_entropy(scores, targets):
    return functional.cross_entropy(scores.flatten(0, 1).float(), targets.flatten())


class Gpt(torch.nn.Module):
    """A GPT whose head is its embedding; it returns the loss."""

    def __init__(self, layers, heads, width, length):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, width)
        self.positions = torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(Block(heads, width) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.words.weight
        self.loss = cross_entropy
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02 / (2 * layers) ** (0.5 * name.endswith(("project.weight", "down.weight"))))

    def forward(self, tokens, targets):
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.loss(self.head(self.norm(x)), targets)


def by_configuration(library, stage, options, model):
    """A step of Cairn's or DeepSpeed's engine."""
    engine = library.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": options.batch,
            "gradient_accumulation_steps": 1,
            "gradient_clipping": CLIP,
            "steps_per_print": 1000000,
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": stage},
            "optimizer": {
                "type": "AdamW",
                "params": {
                    "lr": RATE,
                    "betas": BETAS,
                    "weight_decay": DECAY,
                    **({"torch_adam": True, "fused": True} if library.__name__ == "deepspeed" else {}),
                },
            },
        },
    )[0]
    if options.mode == "compile":
        engine.compile()

    def step(batch):
        loss = engine(*batch)
        engine.backward(loss)
        engine.step()
        return loss

    return step


def fully_sharded(options, model):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    torch.distributed.init_process_group("nccl" if options.device == "cuda" else "gloo")
    mesh = torch.distributed.init_device_mesh(options.device, (1,))
    kinds = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if options.mode == "compile":
        for block in model.blocks:
            block.compile()
        model.loss = torch.compile(cross_entropy)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=kinds)
    fully_shard(model, mesh=mesh, mp_policy=kinds)
    return by_hand(model, model)


def by_hand(model, loss_of):
    """A step with PyTorch's own optimizer."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, weight_decay=DECAY, fused=True)

    def step(batch):
        loss = loss_of(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def cast(options, model):
    compute = torch.compile(model) if options.mode == "compile" else model

    def loss_of(*batch):
        with torch.autocast(options.device, dtype=torch.bfloat16):
            return compute(*batch)

    return by_hand(model, loss_of)


def made(options, model):
    """The step that is asked for, and the version of who takes it."""
    if options.name == "torch":
        return cast(options, model), torch.__version__
    if options.name == "fsdp":
        return fully_sharded(options, model), torch.__version__
    library = importlib.import_module("cairn" if options.name.startswith("cairn") else "deepspeed")
    if library.__name__ == "deepspeed" and "cairn" in sys.modules:
        sys.exit(f"engines.py: {library.__file__} is Cairn's alias; put the real DeepSpeed before it on PYTHONPATH")
    return by_configuration(library, int(options.name[-1]), options, model), library.__version__


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("batch", type=int)
    parser.add_argument("mode", nargs="?", choices=["compile", "eager"], default="eager")
    parser.add_argument("--steps", type=int, default=12, help=f"steps measured, after {WARM_UP} that warm up")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="two narrow layers and short texts, to try the script")
    options = parser.parse_args()
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29518")

    on_gpu = options.device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(1)
    size = SIZES["tiny" if options.tiny else "124M"]
    with torch.device(options.device):
        model = Gpt(*size)
        tokens = torch.randint(TOKENS, (BATCHES, options.batch, size[-1] + 1))
    batches = [(each[:, :-1].contiguous(), each[:, 1:].contiguous()) for each in tokens]
    step, version = made(options, model)
    begin = time.perf_counter()
    for index in range(WARM_UP):
        step(batches[index % BATCHES])
    wait()
    warm = time.perf_counter()
    for index in range(options.steps):
        loss = step(batches[index % BATCHES])
    asked = time.perf_counter()
    wait()
    seconds = (time.perf_counter() - warm) / options.steps
    print(
        "RESULT",
        json.dumps(
            {
                "name": options.name,
                "mode": options.mode,
                "version": version,
                "batch": options.batch,
                "tokens_per_second": round(options.batch * size[-1] / seconds),
                "seconds": round(seconds, 5),
                "host_seconds": round((asked - warm) / options.steps, 5),
                "warm_up_seconds": round(warm - begin, 1),
                "most_allocated": torch.cuda.max_memory_allocated() if on_gpu else 0,
                "most_reserved": torch.cuda.max_memory_reserved() if on_gpu else 0,
                "loss": round(loss.item(), 4),
            }
        ),
        flush=True,
    )
    if torch.distributed.is_initialized() and options.name == "fsdp":
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
