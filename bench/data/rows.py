"""rows.py BUILD DATA MEGABYTES QUICK: the JSON list of measurements that the peers' harness runs beside its own."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main(build, data, megabytes, quick):
    quick = quick == "1"
    home = os.environ["PEERS_HOME"]
    python, cairn = f"{home}/venv/bin/python", f"{build}/bin/cairn"
    corpus, large = f"{home}/data/corpus.jsonl", f"{data}/train.jsonl"
    vocab = [f"{home}/data/gpt2/vocab.json", f"{home}/data/gpt2/merges.txt"]
    rounds = "1" if quick else "5"
    rows = []

    def row(group, case, peer, *command):
        rows.append({"group": group, "case": case, "peer": peer, "command": list(command), "ranks": 1, "threads": 2})

    def encode(group, case, text, threads, name):
        row(group, case, name, f"{build}/bin/data_encode_bench", *vocab, text, str(threads), rounds)

    def preprocess(group, case, text, workers, name, peer):
        prefix = f"{data}/{group}-{workers}"
        outputs = [f"{prefix}_text_document.{end}" for end in ("bin", "idx")]
        pairs = zip(outputs, (f"{peer}_text_document.{end}" for end in ("bin", "idx"))) if peer else ()
        row(group, case, name, python, f"{HERE}/timed_command.py", "--rounds", rounds, "--text", text,
            *(word for path in outputs for word in ("--remove", path)),
            *(word for pair in pairs for word in ("--same", *pair)), "--",
            cairn, "preprocess", "--input", text, "--output-prefix", prefix, "--tokenizer-type", "GPT2BPETokenizer",
            "--vocab-file", vocab[0], "--merge-file", vocab[1], "--append-eod", "--workers", str(workers))

    for threads, end in ((2, ""), (1, ", 1 thread")):
        encode("tokenize", "gpt2", corpus, threads, "cairn encode" + end)
        preprocess("tokenize", "gpt2", corpus, threads, "cairn preprocess" + end, f"{home}/data/megatron")
        # Enough text for what a whole command does once not to count.
        encode("tokenize-text", f"{megabytes}MB", large, threads, "cairn encode" + end)
        preprocess("tokenize-text", f"{megabytes}MB", large, threads, "cairn preprocess" + end, None)

    def train(group, case, text, size):
        out = f"{data}/trained-{group}-{case}"
        if group == "train-text":
            row(group, case, "hf-tokenizers", python, f"{HERE}/train_peer.py", text, str(size), f"{out}-peer", "1" if quick else "2")
        row(group, case, "cairn", python, f"{HERE}/timed_command.py", "--rounds", "1" if quick else "3", "--remove", out,
            *(("--same", f"{out}/merges.txt", f"{out}-peer/merges.txt") if group == "train-text" else ()), "--",
            cairn, "train-tokenizer", text, out, "--vocab-size", str(size), "--min-frequency", "2", "--workers", "2")

    train("train-tokenizer", "bpe8000", corpus, 8000)
    for size in ((2000,) if quick else (8000, 52000)):
        train("train-text", f"{megabytes}MB-bpe{size}", large, size)

    for name, count in ((("200k", 200_000),) if quick else (("10M", 10_000_000), ("100M", 100_000_000))):
        row("gpt-index", name, "megatron helpers", python, f"{HERE}/index_peer.py", str(count), "1" if quick else "3")
        row("gpt-index", name, "cairn", f"{build}/bin/data_index_bench", str(count), "1" if quick else "3")
    json.dump(rows, sys.stdout, indent=1)


main(*sys.argv[1:])
