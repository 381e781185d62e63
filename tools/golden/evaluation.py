"""Makes tests/golden/evaluation with transformers, lm-evaluation-harness and Megatron-DeepSpeed's detokenizers.

python3 evaluation.py MEGATRON: MEGATRON is a checkout of microsoft/Megatron-DeepSpeed. A tiny GPT-2 with random weights
is made, texts for it, and what it is to score on them.
"""

import importlib.util
import json
import math
import os
import random
import sys

import torch
import transformers
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks.hellaswag.utils import process_docs

GOLDEN = os.path.dirname(os.path.abspath(__file__)) + "/../../tests/golden"
HERE = f"{GOLDEN}/evaluation"
LENGTH = 64
WORDS = ("the a one old young small river stone path house light bird song night day walks sees finds carries leaves and "
         "but then under over near far slowly never always model training tokens").split()
PIECES = ["s '", "' s", "/' 5/", "/' x/", " @-@ ", " @,@ ", " @.@ ", " : ", " ; ", " . ", " ! ", " ? ", " , ", "( ", " )", "[ ", " ]",
          "{ ", " }", '" ', ' "', '"', "' ", " '", "'", "= = = =", "= = =", "= =", " \u00b0 ", " \n", "\n ", "\n", " N ", " 's",
          " n't", "$ 1", "# 1", "\u00a0", "\u2003", "\t", "word", "Name", "42", "\u00e9t\u00e9", " ", "  "]


def detokenizers(megatron):
    spec = importlib.util.spec_from_file_location("detokenizer", f"{megatron}/tasks/zeroshot_gpt/detokenizer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    draw = random.Random(3)
    texts = ["", "a", "( unclosed", "closed )", '" one', "= Title = \n", " = = Section = = \n"]
    texts += ["".join(draw.choice(PIECES) for _ in range(draw.randrange(1, 25))) for _ in range(400)]
    return [{"text": text, "wikitext": module.wikitext_detokenizer(text), "ptb": module.ptb_detokenizer(text)}
            for text in texts]


def make_model():
    torch.manual_seed(1)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=f"{GOLDEN}/tokenizers/train/own600-tokenizer.json", eos_token="<|endoftext|>", bos_token="<|endoftext|>")
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=LENGTH, n_embd=32, n_layer=2, n_head=4, initializer_range=0.35,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0)).eval()
    model.save_pretrained(f"{HERE}/model")
    os.remove(f"{HERE}/model/generation_config.json")
    return tokenizer, model


def sentence(draw, length):
    return " ".join(draw.choice(WORDS) for _ in range(length))


def wiki_text(draw):
    lines = [" \n", " = Old River = \n", " \n"]
    for part in range(6):
        lines += [f" = = Part {part} = = \n", " \n"]
        for _ in range(2):
            lines.append(f" {sentence(draw, 12).capitalize()} , {sentence(draw, 4)} ( {sentence(draw, 3)} ) ; {draw.randrange(2, 90)} "
                         f"@,@ 000 <unk> and \" {sentence(draw, 2)} \" of the river 's {sentence(draw, 2)} @-@ side . "
                         f"{sentence(draw, 14)} . \n")
        lines.append(" \n")
    return "".join(lines)


def losses(model, tokens):
    """Negative log-probabilities of all tokens but the first, in double."""
    with torch.no_grad():
        scores = model(torch.tensor([tokens[:-1]])).logits[0].double()
    return -scores.log_softmax(-1).gather(1, torch.tensor(tokens[1:]).unsqueeze(1)).squeeze(1), scores.argmax(-1).tolist()


def wikitext(model, tokens, words, length, step):
    """What Megatron's windows score: of the first all, of the others the last `step` places."""
    total = 0.0
    scored = 0
    for first in range(0, max(len(tokens) - 1 - step, 0) + step, step):
        window = tokens[first:first + length + 1]
        if len(window) < 2:
            continue
        each, _ = losses(model, window)
        begin = 0 if first == 0 else length - step
        total += each[begin:].sum().item()
        scored += len(each[begin:])
    assert scored == len(tokens) - 1
    loss = total / scored
    ratio = scored / (words - 1)
    return {"length": length, "step": step, "avg_loss": loss, "ppl": math.exp(min(20, loss)),
            "adjusted_ppl": math.exp(min(20, loss * ratio)), "token_ratio": ratio}


def foreseen(model, tokens, labels):
    _, best = losses(model, tokens + labels)
    return best[len(tokens) - 1:] == labels


def lambada(draw, tokenizer, model):
    """Texts, of which the model foresees some to the end."""
    texts = []
    while len(texts) < 24:
        text = sentence(draw, draw.randrange(3, 30))
        if len(texts) % 2 == 0:
            ids = tokenizer.encode(text)
            best = losses(model, ids[-LENGTH:] + [0])[1][-1]
            word = tokenizer.decode([best])
            if not word.startswith(" ") or not word.strip().isalpha() or tokenizer.encode(text + word) != ids + [best]:
                continue
            text += word
        texts.append(text)
    texts.append(sentence(draw, 90))  # longer than the model
    texts.append(" \u00e9t\u00e9 " + sentence(draw, 5) + " \n")
    right = {"last_token": 0, "whole_word": 0}
    for text in texts:
        ids = tokenizer.encode(text)[-LENGTH - 1:]
        right["last_token"] += foreseen(model, ids[:-1], ids[-1:])
        last = text.split()[-1]
        before = tokenizer.encode(text[:text.rfind(last)].strip())
        label = tokenizer.encode(" " + last)
        right["whole_word"] += foreseen(model, before[len(before) + len(label) - LENGTH - 1 if len(before) + len(label) > LENGTH + 1 else 0:], label)
    return texts, right | {"examples": len(texts)}


def hellaswag(draw, tokenizer, model):
    documents = []
    for number in range(20):
        documents.append({
            "ind": number, "activity_label": draw.choice(["Walking home", "Finding a path", "\u00c9t\u00e9 [x]"]),
            "ctx_a": sentence(draw, 8).capitalize() + ".",
            "ctx_b": draw.choice(["", "the OLD bird", "\u00e9t\u00e9 SONG", "[header] one [title] two"]),
            "endings": [draw.choice(["", "[step] ", "  "]) + sentence(draw, 2 + 3 * i) + draw.choice([".", " [title] x.", " ."])
                        for i in range(4)],
            "label": draw.randrange(4)})
        documents[-1]["ctx"] = documents[-1]["ctx_a"] + " " + documents[-1]["ctx_b"]
        if number == 7:
            documents[-1]["ctx_a"] = sentence(draw, 100)
            documents[-1]["ctx"] = documents[-1]["ctx_a"]
        if number == 8:
            documents[-1]["label"] = str(documents[-1]["label"])

    class Documents(list):
        def map(self, each):
            return [each(document) for document in self]

    harness = HFLM(pretrained=model, tokenizer=tokenizer, max_length=LENGTH, batch_size=1, device="cpu")
    correct = normalized = 0
    for made in process_docs(Documents(documents)):
        scores = []
        for choice in made["choices"]:
            context, ending = harness._encode_pair(made["query"], " " + choice)
            scores.append(harness._loglikelihood_tokens([((made["query"], " " + choice), context, ending)], disable_tqdm=True)[0][0])
        correct += scores.index(max(scores)) == made["gold"]
        by_length = [score / len(choice) for score, choice in zip(scores, made["choices"])]
        normalized += by_length.index(max(by_length)) == made["gold"]
    plain = plain_normalized = 0
    for document in documents:
        sums, means = [], []
        for ending in document["endings"]:
            context = tokenizer.encode(document["ctx"].rstrip())
            tokens = tokenizer.encode(document["ctx"] + " " + ending)
            scored = len(tokens) - len(context)
            each = losses(model, tokens[-LENGTH - 1:])[0][-scored:]
            sums.append(each.sum().item())
            means.append(sums[-1] / scored)
        plain += sums.index(min(sums)) == int(document["label"])
        plain_normalized += means.index(min(means)) == int(document["label"])
    return documents, {"examples": len(documents), "correct": correct, "normalized": normalized, "plain_correct": plain,
                       "plain_normalized": plain_normalized}


def perplexity(tokenizer, model, texts):
    """Each text behind <|endoftext|>, as the harness's rolling log-likelihood."""
    from lm_eval.api.instance import Instance
    harness = HFLM(pretrained=model, tokenizer=tokenizer, max_length=LENGTH, batch_size=1, device="cpu")
    requests = [Instance(request_type="loglikelihood_rolling", doc={}, arguments=(text,), idx=0) for text in texts]
    total = -sum(harness.loglikelihood_rolling(requests, disable_tqdm=True))
    tokens = sum(len(tokenizer.encode(text)) for text in texts)
    size = sum(len(text.encode()) for text in texts)
    words = sum(len(text.split()) for text in texts)
    return {"tokens": tokens, "bytes": size, "words": words, "avg_loss": total / tokens, "ppl": math.exp(total / tokens),
            "bits_per_byte": total / math.log(2) / size, "ppl_per_word": math.exp(total / words)}


def lines(objects):
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects)


def main():
    megatron, = sys.argv[1:]
    os.makedirs(HERE, exist_ok=True)
    write = lambda name, text: open(f"{HERE}/{name}", "w", encoding="utf-8", newline="").write(text)
    cases = detokenizers(megatron)
    write("detokenizer.json", "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    tokenizer, model = make_model()
    draw = random.Random(5)
    raw = wiki_text(draw)
    write("wiki.test.tokens", raw)
    spec = importlib.util.spec_from_file_location("detokenizer", f"{megatron}/tasks/zeroshot_gpt/detokenizer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tokens = tokenizer.encode(module.wikitext_detokenizer(raw))
    words = len(raw.strip().split(" "))
    texts, lambada_results = lambada(draw, tokenizer, model)
    write("lambada.jsonl", lines({"text": text} for text in texts))
    documents, hellaswag_results = hellaswag(draw, tokenizer, model)
    write("hellaswag.jsonl", lines(documents))
    stories = [sentence(draw, 70), "short one", wiki_text(draw)[:900], "\u00e9t\u00e9 \u2003 \u65e5\u672c"]
    write("stories.jsonl", lines({"story": text, "number": i} for i, text in enumerate(stories)))
    write("expected.json", json.dumps({
        "original_tokens": words, "tokenized_tokens": len(tokens),
        "wikitext": [wikitext(model, tokens, words, length, step)
                     for length, step in [(64, 32), (64, 64), (48, 7), (64, 1)]],
        "lambada": lambada_results, "hellaswag": hellaswag_results,
        "stories": perplexity(tokenizer, model, stories),
        "text": perplexity(tokenizer, model, [raw])}, indent=1) + "\n")


main()
