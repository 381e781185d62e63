"""Makes tests/golden/tokenizers/json with Hugging Face's tokenizers library.

python3 tokenizer_json.py TEXT: learns small vocabularies from TEXT, writes tokenizer
files that exercise the components Cairn honours, and what the library makes of
the texts in gpt2/cases.json with each.
"""

import json
import os
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

GOLDEN = os.path.dirname(os.path.abspath(__file__)) + "/../../tests/golden/tokenizers"
HERE = f"{GOLDEN}/json"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
EXTRA = [
    "before <|tool|> after", "x<|tool|>y", "keep  <|left|> this", "and <|right|>  that", "a word here", "awordhere", "word",
    "<|begin_of_text|>hi<|end_of_text|>", "caf\u00e9 cafe\u0301 \u212b \ufb01", "I'LL go, I'll GO; IT'S 12345 67\r\n\r\n  x",
    "\u180e \u200b \u0085 \u3000x", "Hello World [MASK] hello[SEP]there", "CAFE AU lait, cafe au lait, Cafe \uff21u", "\u0130stanbul \u03a3\u0391\u03a3 na\u00efve",
]


def bpe_trainer(**more):
    return trainers.BpeTrainer(vocab_size=900, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **more)


def llama3(text):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train([text], bpe_trainer(special_tokens=["<|begin_of_text|>", "<|end_of_text|>"]))
    tokenizer.add_tokens([
        AddedToken("<|tool|>", normalized=False), AddedToken("<|left|>", lstrip=True, normalized=False),
        AddedToken("<|right|>", rstrip=True, normalized=False), AddedToken("word", single_word=True, normalized=False)])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                                      special_tokens=[("<|begin_of_text|>", 0)])])
    return tokenizer


def normalized(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train([text], bpe_trainer(special_tokens=["<s>", "</s>", "<pad>"]))
    tokenizer.add_tokens([AddedToken("Cafe \uff21u", normalized=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return tokenizer


def digits(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split("ing", "removed"),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train([text], bpe_trainer(special_tokens=["<|endoftext|>"]))
    return tokenizer


def bert(text):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train([text], trainers.WordPieceTrainer(vocab_size=900, min_frequency=2, special_tokens=specials))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def main(text):
    with open(f"{GOLDEN}/gpt2/cases.json", encoding="utf-8") as file:
        texts = [case["text"] for case in json.load(file) if len(case["text"]) < 300] + EXTRA
    for name, make in {"llama3": llama3, "normalized": normalized, "digits": digits, "bert": bert}.items():
        tokenizer = make(text)
        tokenizer.save(f"{HERE}/{name}.json", pretty=False)
        lines = []
        for case in texts:
            ids = tokenizer.encode(case).ids
            row = {"text": case, "ids": ids, "ids_bare": tokenizer.encode(case, add_special_tokens=False).ids,
                   "decoded": tokenizer.decode(ids, skip_special_tokens=False)}
            lines.append(json.dumps(row))
        with open(f"{HERE}/{name}-cases.json", "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(lines) + "\n]\n")


main(sys.argv[1])
