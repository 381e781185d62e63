#!/usr/bin/env python3
"""What Hugging Face's trainer (tokenizers 0.23.3) makes of small texts.

usage: bpe_train.py FOLDER

Reads FOLDER/own.txt. Writes own600-tokenizer.json, and special.txt with special-*: a text of which a special token is a
word and another a letter, learnt until no pair is left.
"""
import os
import random
import sys

from tokenizers import ByteLevelBPETokenizer


def train(text, **options):
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train([text], show_progress=False, **options)
    return tokenizer


def main(folder):
    own = train(os.path.join(folder, "own.txt"), vocab_size=600, min_frequency=2, special_tokens=["<|endoftext|>"])
    own.save(os.path.join(folder, "own600-tokenizer.json"))

    rng = random.Random(4)
    words = ["".join(rng.choice("aab") for _ in range(rng.randint(1, 20))) for _ in range(60)]
    text = os.path.join(folder, "special.txt")
    with open(text, "w") as f:
        f.write(" ".join(words) + "\n")
    special = train(text, vocab_size=5000, min_frequency=1, special_tokens=["<|endoftext|>", "ab", "a", "ab"])
    special.save_model(folder, "special")
    special.save(os.path.join(folder, "special-tokenizer.json"))


main(sys.argv[1])
