#!/usr/bin/env python3
"""Writes tests/golden/models/{qwen2,qwen3,gpt_neox,mixtral}: tiny random models of transformers with their inputs,
logits, losses and norms of gradients, and tests/golden/generation/families.json: what they write.

    pip install torch==2.11.0 transformers==4.57.1
    tools/golden/families.py
    pip install --target NEWER transformers==5.2.0 && PYTHONPATH=NEWER tools/golden/families.py --config.v5
"""

import copy
import json
import pathlib
import sys

import safetensors.torch
import torch
import transformers

golden = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
SIZES = dict(vocab_size=512, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
CONFIGS = {
    # Biases of queries, keys and values alone, and a tied head.
    "qwen2": lambda: transformers.Qwen2Config(**SIZES, num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=True,
                                              rope_theta=1e6),
    # Norms of queries and keys, and heads that are wider than hidden / heads.
    "qwen3": lambda: transformers.Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-6,
                                              tie_word_embeddings=False, rope_theta=1e6),
    # Attention and MLP side by side, and positions in half of each head.
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**SIZES, rotary_pct=0.5, hidden_act="gelu", use_parallel_residual=True),
    # Experts in place of each MLP.
    "mixtral": lambda: transformers.MixtralConfig(**SIZES, num_key_value_heads=2, rms_norm_eps=1e-5, num_local_experts=4,
                                                  num_experts_per_tok=2, rope_theta=1e6),
}


def make(config, seed):
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                parameter.copy_(values * 0.1 + (0 if name.endswith("bias") else 1))
            else:
                parameter.copy_(values * 0.25)
    return model


def pass_through(model, ids, labels):
    model.zero_grad()
    result = model(input_ids=ids, labels=labels, use_cache=False)
    result.loss.backward()
    return result


def greedy(model, prompt, new, use_cache=True):
    made = model.generate(torch.tensor([prompt]), max_new_tokens=new, do_sample=False, use_cache=use_cache,
                          eos_token_id=None, pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    margins = [(row.topk(2).values[0, 0] - row.topk(2).values[0, 1]).item() for row in made.logits]
    return {"prompt": prompt, "ids": made.sequences[0, len(prompt):].tolist(), "min_margin": min(margins)}


if sys.argv[1:] == ["--config.v5"]:
    for name in CONFIGS:
        config = transformers.AutoConfig.from_pretrained(golden / "models" / name)
        (golden / "models" / name / "config.v5.json").write_text(config.to_json_string(use_diff=False))
    sys.exit()

texts = {"transformers": transformers.__version__, "torch": torch.__version__}
for seed, (name, config) in enumerate(CONFIGS.items()):
    model = make(config(), seed)
    folder = golden / "models" / name
    generator = torch.Generator().manual_seed(100 + seed)
    ids = torch.randint(3, 512, (2, 16), generator=generator)
    labels = ids.clone()
    labels[0, :5] = -100
    narrow = pass_through(model, ids, labels)
    norms = {key: each.grad.double().norm().item() for key, each in model.named_parameters()}
    wide = pass_through(copy.deepcopy(model).double(), ids, labels)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    safetensors.torch.save_file({"input_ids": ids, "labels": labels, "logits": narrow.logits.detach().contiguous()},
                                folder / "io.safetensors")
    (folder / "expected.json").write_text(json.dumps({
        "loss": narrow.loss.item(), "loss_f64": wide.loss.item(),
        "max_abs_diff_f32_f64": {"logits": (narrow.logits - wide.logits).abs().max().item()},
        "grad_norms": norms, "num_parameters": sum(each.numel() for each in model.parameters()),
        "total_grad_norm": sum(each**2 for each in norms.values())**0.5}, indent=1) + "\n")
    prompts = [torch.randint(3, 512, (length,), generator=generator).tolist() for length in (1, 7, 20)]
    texts[name] = [greedy(model, prompt, 24) for prompt in prompts]
    for prompt, row in zip(prompts, texts[name]):
        assert greedy(model, prompt, 24, use_cache=False)["ids"] == row["ids"]
    print(name, narrow.loss.item(), min(row["min_margin"] for row in texts[name]))
(golden / "generation" / "families.json").write_text(json.dumps(texts) + "\n")
