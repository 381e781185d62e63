"""Makes tests/golden/tokenizers/sentencepiece with the SentencePiece library.

python3 sentencepiece_models.py TEXT: learns two small models from TEXT, one that normalizes and
one that falls back to bytes, and writes what the library makes of the short
texts in gpt2/cases.json.
"""

import json
import os
import re
import sys

import sentencepiece

GOLDEN = os.path.dirname(os.path.abspath(__file__)) + "/../../tests/golden/tokenizers"
HERE = f"{GOLDEN}/sentencepiece"


def main(text):
    with open(f"{GOLDEN}/gpt2/cases.json", encoding="utf-8") as file:
        texts = [case["text"] for case in json.load(file) if len(case["text"]) < 120]
    # No NUL, and no runs of one character: versions of the library differ in which of equally good cuts they take.
    texts = [t for t in texts if "\0" not in t and not re.search(r"(\S)\1{4}", t)]
    for kind, rule in {"unigram": "nmt_nfkc", "bpe": "identity"}.items():
        sentencepiece.SentencePieceTrainer.train(
            input=text, model_prefix=f"{HERE}/{kind}", model_type=kind, vocab_size=400, pad_id=3,
            normalization_rule_name=rule, byte_fallback=kind == "bpe", minloglevel=2)
        os.remove(f"{HERE}/{kind}.vocab")
        model = sentencepiece.SentencePieceProcessor(model_file=f"{HERE}/{kind}.model")
        rows = []
        for case in texts[:120]:
            ids = model.encode(case)
            rows.append(json.dumps({"text": case, "ids": ids, "decoded": model.decode(ids)}))
        with open(f"{HERE}/{kind}-cases.json", "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(rows) + "\n]\n")


main(sys.argv[1])
