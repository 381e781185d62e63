"""transformers' generate() with its cache, beside generate_bench: GPT-2 124M with random weights, fp32, greedy, one text,
a prompt of 32 tokens and 64 tokens after it. Prints new tokens in a second, the best of several runs.

    python3 bench/generate/peer.py [RUNS]
"""
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

PROMPT, NEW = 32, 64


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    model = GPT2LMHeadModel(GPT2Config()).eval()
    prompt = torch.randint(0, 50257, (1, PROMPT))

    def generate(count):
        model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, use_cache=True,
                       min_new_tokens=count, max_new_tokens=count, pad_token_id=0)

    with torch.inference_mode():
        generate(2)
        first = min(seconds(lambda: generate(1)) for _ in range(runs))
        whole = min(seconds(lambda: generate(NEW)) for _ in range(runs))
    print(f"transformers: {(NEW - 1) / (whole - first):.1f} new tok/s, {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
