"""Time and memory of a training step where ranks mostly talk to each other: wide layers,
few tokens. Runs with Cairn, or with the real DeepSpeed where that is installed:

    torchrun --nproc-per-node 2 bench/python/step.py cairn --stage 3
    torchrun --nproc-per-node 2 bench/python/step.py deepspeed --stage 3
"""

import argparse
import importlib
import os
import resource
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("library", choices=("cairn", "deepspeed"))
parser.add_argument("--stage", type=int, default=3)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--steps", type=int, default=10)
args = parser.parse_args()

library = importlib.import_module(args.library)
library.init_distributed("gloo")
torch.manual_seed(1)
layers = [torch.nn.Sequential(torch.nn.Linear(args.width, args.width), torch.nn.GELU()) for _ in range(args.layers)]
engine = library.initialize(
    model=torch.nn.Sequential(*layers),
    model_parameters=[parameter for layer in layers for parameter in layer.parameters()],
    config={
        "train_micro_batch_size_per_gpu": 1,
        "steps_per_print": 1000000,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "zero_optimization": {"stage": args.stage},
    },
)[0]
x = torch.randn(1, args.width)
times = []
for step in range(args.steps + 3):
    begin = time.perf_counter()
    loss = engine(x).square().mean()
    engine.backward(loss)
    engine.step()
    times.append(time.perf_counter() - begin)
if int(os.environ.get("RANK", "0")) == 0:
    middle = sorted(times[3:])[args.steps // 2]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{args.library} stage {args.stage}: {1000 * middle:.1f} ms a step, {memory:.0f} MiB at most, loss {loss.item():.5f}")
