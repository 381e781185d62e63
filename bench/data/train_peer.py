"""train_peer.py CORPUS.jsonl VOCAB_SIZE OUT ROUNDS: Hugging Face's byte-level BPE trainer on texts in memory.
Writes vocab.json and merges.txt to OUT, for comparison with ours."""
import json
import os
import statistics
import sys
import time

import tokenizers


def main(corpus, vocab_size, out, rounds):
    with open(corpus, encoding="utf-8") as f:
        texts = [json.loads(line)["text"] for line in f]
    seconds = []
    for _ in range(rounds):
        tokenizer = tokenizers.ByteLevelBPETokenizer()
        start = time.perf_counter()
        tokenizer.train_from_iterator(texts, vocab_size=vocab_size, min_frequency=2, show_progress=False,
                                      special_tokens=["<|endoftext|>"])
        seconds.append(time.perf_counter() - start)
    os.makedirs(out, exist_ok=True)
    tokenizer.save_model(out)
    print(json.dumps({"value": statistics.median(seconds), "unit": "s", "best": min(seconds), "worst": max(seconds),
                      "samples": len(seconds), "megabytes": sum(len(t.encode()) for t in texts) / 1e6}))


main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
