"""What the peers share: the command line, the training and the line that tells the result."""

import argparse
import json
import time

import torch

VOCABULARY = 50304  # rows of the embedding
TOKENS = 50257  # tokens are below it
WARM_UP = 4
BATCHES = 4  # used in turn, so that the loss falls although tokens are random


def command_line(text, models):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=models)
    parser.add_argument("batch", type=int)
    parser.add_argument("mode", nargs="?", choices=["compile", "eager"], default="compile")
    parser.add_argument("--steps", type=int, default=12, help=f"steps measured, after {WARM_UP} that warm up")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="two narrow layers and short texts, to try the script")
    return parser


def random_tokens(options, *shape, below=TOKENS):
    return torch.randint(below, shape, device=options.device)


def train(options, model, loss_of, draw_batch, tokens_per_sample):
    """Trains `model` on random batches and prints its speed.

    loss_of(batch) is compiled, if that is asked for; draw_batch() makes a batch on the device.
    """
    on_gpu = options.device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    compute_loss = torch.compile(loss_of) if options.mode == "compile" else loss_of
    batches = [draw_batch() for _ in range(BATCHES)]

    def step(index):
        loss = compute_loss(batches[index % BATCHES])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    for index in range(WARM_UP):
        step(index)
    wait()
    begin = time.perf_counter()
    for index in range(options.steps):
        loss = step(index)
    wait()
    seconds = (time.perf_counter() - begin) / options.steps

    result = {
        "peer": options.mode,
        "model": options.model,
        "batch": options.batch,
        "ms": round(seconds * 1e3, 2),
        "tok_s": round(options.batch * tokens_per_sample / seconds),
        "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0,
        "loss": round(loss.item(), 3),
        "parameters": sum(each.numel() for each in model.parameters()),
    }
    print("RESULT", json.dumps(result), flush=True)
