#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/tiktoken: the first tokens of Mistral's tekken vocabulary as Megatron's TikTokenizer
takes them, and what tiktoken makes of texts with them.

    pip install tiktoken==0.14.0 mistral-common==1.13.1
    tools/golden/tiktoken_json.py
"""

import base64
import json
import pathlib

import mistral_common
import tiktoken

golden = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "tokenizers"
TOKENS = 2500
SPECIAL = 20
NAMES = ["<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>", "[INST]"]
PATTERNS = {
    "v1": r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "v2": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
          r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+",
}
MORE = ["<s>[INST] Hello<SPECIAL_9>there</s>", "HTTPServerError camelCaseWords ALLCAPS",
        "aaaaaaaaaaaa " * 3 + "a" * 300, "=" * 200 + "-" * 67 + "/" * 90, " " * 77 + "x", "\n\n\n  \n", "don't can't I'LL",
        "na\u00efve caf\u00e9 \u03a3\u0391\u03a3 \u4f60\u597d\u4e16\u754c \U0001f600\U0001f680 \u0627\u0644\u0639"]

vocabulary = json.loads((pathlib.Path(mistral_common.__file__).parent / "data" / "tekken_240718.json").read_text())["vocab"]
vocabulary = vocabulary[:TOKENS]
folder = golden / "tiktoken"
folder.mkdir(exist_ok=True)
(folder / "vocab.json").write_text("[\n" + ",\n".join(json.dumps(each) for each in vocabulary) + "\n]\n")
texts = [each["text"] for each in json.loads((golden / "gpt2" / "cases.json").read_text())][:120] + MORE
names = NAMES + [f"<SPECIAL_{i}>" for i in range(len(NAMES), SPECIAL)]
cases = {"special": SPECIAL, "names": NAMES}
for pattern, text in PATTERNS.items():
    encoding = tiktoken.Encoding(
        name=pattern, pat_str=text,
        mergeable_ranks={base64.b64decode(each["token_bytes"]): each["rank"] + SPECIAL for each in vocabulary},
        special_tokens={name: i for i, name in enumerate(names)})
    cases[pattern] = [{"text": each, "ids": encoding.encode(each, allowed_special="all"),
                       "ids_plain": encoding.encode_ordinary(each)} for each in texts]
(folder / "cases.json").write_text(json.dumps(cases) + "\n")
print(len(texts), sum(path.stat().st_size for path in folder.iterdir()))
