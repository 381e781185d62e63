"""transformers' generate() with its cache, greedy, with random weights, beside generate_bench and generate_gpu_bench.

    python3 bench/generate/peer.py [RUNS]          GPT-2 124M in fp32 on the CPU, one text, 32 + 64 tokens: new tokens in a
                                                   second after the prompt
    python3 bench/generate/peer.py --gpu [RUNS]    GPT-2 1.5B in bf16 on a GPU, one text and 64 texts, 32 + 100 tokens: new
                                                   tokens in a second, the prompt's time included

Prints the best of several runs.
"""
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

PROMPT = 32


def seconds(work):
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def writer(model, texts):
    """Writes so many tokens after prompts of random ids."""
    prompt = torch.randint(0, 50257, (texts, PROMPT), device=model.device)

    def write(count):
        model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, use_cache=True,
                       min_new_tokens=count, max_new_tokens=count, pad_token_id=0)

    return write


def on_the_cpu(runs, new=64):
    write = writer(GPT2LMHeadModel(GPT2Config()).eval(), 1)
    write(2)
    first = min(seconds(lambda: write(1)) for _ in range(runs))
    whole = min(seconds(lambda: write(new)) for _ in range(runs))
    print(f"transformers: {(new - 1) / (whole - first):.1f} new tok/s, {torch.get_num_threads()} threads")


def on_a_gpu(runs, new=100):
    config = GPT2Config(n_layer=48, n_head=25, n_embd=1600)
    with torch.device("cuda"):
        model = GPT2LMHeadModel(config).to(torch.bfloat16).eval()
    for texts in 1, 64:
        write = writer(model, texts)
        write(new)
        best = min(seconds(lambda: write(new)) for _ in range(runs))
        print(f"transformers: {texts} texts, {texts * new / best:.1f} new tok/s", flush=True)


def main():
    arguments = sys.argv[1:]
    gpu = "--gpu" in arguments
    runs = [int(argument) for argument in arguments if argument != "--gpu"]
    with torch.inference_mode():
        (on_a_gpu if gpu else on_the_cpu)(*(runs or [3]))


if __name__ == "__main__":
    main()
