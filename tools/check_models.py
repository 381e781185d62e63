#!/usr/bin/env python3
"""Opens models that Cairn wrote with the programs that they are meant for.

    check_models.py huggingface FOLDER  transformers loads every folder in it: no name missing or
                                        unknown, and the outputs of io.safetensors where there is one
    check_models.py megatron FOLDER     the GPT-2 of model.safetensors, cut by Cairn, put together again
                                        by the rules of Megatron-LM

Ends with 77 where a package is missing.
"""
import sys
from pathlib import Path


def fail(place, why):
    sys.exit(f"{place}: {why}")


def check_outputs(model, io, place):
    import torch
    outputs = {"logits", "prediction_logits", "seq_relationship_logits"}
    # Losses are not compared: transformers' own formula needs no check.
    inputs = {key: value for key, value in io.items() if key not in outputs}
    with torch.no_grad():
        got = model(**inputs)
    for key in outputs & set(io):
        difference = (got[key] - io[key]).abs().max().item()
        if not difference < 1e-5:
            fail(place, f"{key} differ by {difference}")


def check_huggingface(folder):
    import torch
    import transformers
    from safetensors.torch import load_file
    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    checked = 0
    for place in sorted(place for place in folder.iterdir() if place.is_dir()):
        config = transformers.AutoConfig.from_pretrained(place)
        kind = getattr(transformers, config.architectures[0])
        model, info = kind.from_pretrained(place, output_loading_info=True, attn_implementation="eager")
        model.eval()
        for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            if info[what]:
                fail(place.name, f"{what}: {sorted(info[what])}")
        weights = {}
        for file in place.glob("model*.safetensors"):
            weights.update(load_file(file))
        state = model.state_dict()
        # transformers 5 takes every T5's head for the embedding: nothing to compare then.
        lost = {"lm_head.weight", "shared.weight"} if config.model_type == "t5" and "lm_head.weight" in weights \
            and torch.equal(state["lm_head.weight"], state["shared.weight"]) else set()
        # It also gives some weights other names when it loads them, and joins those of experts.
        renamed = weights.keys() - state.keys()
        if renamed and not (place / "io.safetensors").exists():
            fail(place.name, f"neither compared nor used for known outputs: {sorted(renamed)}")
        for name, tensor in weights.items():
            if name not in lost | renamed and not torch.equal(state[name], tensor):
                fail(place.name, f"{name} differs")
        if (place / "io.safetensors").exists() and not lost:
            check_outputs(model, load_file(place / "io.safetensors"), place.name)
            checked += 1
        else:
            model(**model.dummy_inputs)
    print(f"{checked} models give the outputs of io.safetensors")


def check_megatron(folder):
    import argparse
    import torch
    from safetensors.torch import load_file
    wanted = load_file(folder / "model.safetensors")
    tag = folder / f"iter_{int((folder / 'latest_checkpointed_iteration.txt').read_text()):07d}"
    files = {(t, p): torch.load(tag / f"mp_rank_{t:02d}_{p:03d}" / "model_optim_rng.pt", weights_only=False)
             for t in range(2) for p in range(2)}
    for file in files.values():
        args = file["args"]
        if not isinstance(args, argparse.Namespace) or args.params_dtype != torch.float16:
            fail(tag, "not the args")
    heads, head = args.num_attention_heads, args.kv_channels
    for layer in range(args.num_layers):
        stage, local = layer // 1, 0
        encoders = [files[t, stage]["model"]["language_model"]["encoder"] for t in range(2)]
        fused = torch.cat([e[f"layers.{local}.self_attention.query_key_value.weight"] for e in encoders])
        fused = fused.view(heads, 3, head, -1).transpose(0, 1).reshape(3 * heads * head, -1)
        down = torch.cat([e[f"layers.{local}.mlp.dense_4h_to_h.weight"] for e in encoders], dim=1)
        for got, name in ((fused, "attn.c_attn"), (down, "mlp.c_proj")):
            if not torch.equal(got.t(), wanted[f"transformer.h.{layer}.{name}.weight"].half()):
                fail(tag, f"layer {layer}: {name} differs")
    words = torch.cat([files[t, 0]["model"]["language_model"]["embedding"]["word_embeddings"]["weight"]
                       for t in range(2)])
    head_words = torch.cat([files[t, 1]["model"]["word_embeddings_for_head"]["weight"] for t in range(2)])
    want = wanted["transformer.wte.weight"].half()
    if not torch.equal(words[:len(want)], want) or not torch.equal(words, head_words):
        fail(tag, "embeddings differ")
    if args.padded_vocab_size != len(words) or len(words) % 256:
        fail(tag, f"{len(words)} words")


def main():
    checks = {"huggingface": check_huggingface, "megatron": check_megatron}
    if len(sys.argv) != 3 or sys.argv[1] not in checks:
        sys.exit(__doc__)
    try:
        checks[sys.argv[1]](Path(sys.argv[2]))
    except ModuleNotFoundError as error:
        print(error)
        sys.exit(77)


if __name__ == "__main__":
    main()
