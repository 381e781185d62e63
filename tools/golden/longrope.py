#!/usr/bin/env python3
"""Writes tests/golden/generation/longrope.json: what transformers makes of texts that grow beyond the original context
of LongRoPE, with the tiny Llama of tests/golden/models, as Llama and as Phi-3.

    pip install torch==2.11.0 transformers==4.57.1
    tools/golden/longrope.py
"""

import copy
import json
import pathlib

import torch
import transformers

golden = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
POSITIONS = 96
ORIGINAL = 24
SHORT = [1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.8]
LONG = [1.0, 1.1, 1.4, 2.0, 3.0, 3.5, 4.0, 4.25]


def llama(scaling, **more):
    config = transformers.LlamaConfig.from_pretrained(golden / "models" / "llama")
    config.max_position_embeddings = POSITIONS
    config.rope_scaling = scaling
    for key, value in more.items():
        setattr(config, key, value)
    return transformers.LlamaForCausalLM.from_pretrained(golden / "models" / "llama", config=config).eval()


def phi3(model):
    """The same weights and positions as a Phi-3, whose products are joined."""
    c = model.config
    config = transformers.Phi3Config(
        vocab_size=c.vocab_size, hidden_size=c.hidden_size, intermediate_size=c.intermediate_size,
        num_hidden_layers=c.num_hidden_layers, num_attention_heads=c.num_attention_heads,
        num_key_value_heads=c.num_key_value_heads, max_position_embeddings=POSITIONS,
        original_max_position_embeddings=ORIGINAL, rms_norm_eps=c.rms_norm_eps, rope_theta=c.rope_theta,
        rope_scaling={"type": "longrope", "short_factor": SHORT, "long_factor": LONG}, bos_token_id=1,
        eos_token_id=2, pad_token_id=2, sliding_window=POSITIONS)
    weights = {}
    for name, tensor in model.state_dict().items():
        if ".q_proj." in name:
            three = [model.state_dict()[name.replace("q_proj", each)] for each in ("q_proj", "k_proj", "v_proj")]
            weights[name.replace("q_proj", "qkv_proj")] = torch.cat(three)
        elif ".gate_proj." in name:
            two = [tensor, model.state_dict()[name.replace("gate_proj", "up_proj")]]
            weights[name.replace("gate_proj", "gate_up_proj")] = torch.cat(two)
        elif not any(each in name for each in (".k_proj.", ".v_proj.", ".up_proj.")):
            weights[name] = tensor
    result = transformers.Phi3ForCausalLM(config)
    result.load_state_dict(weights)
    return result.eval()


def greedy(model, prompt, new, use_cache):
    made = model.generate(torch.tensor([prompt]), max_new_tokens=new, do_sample=False, use_cache=use_cache,
                          eos_token_id=None, pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    margins = [(row.topk(2).values[0, 0] - row.topk(2).values[0, 1]).item() for row in made.logits]
    return {"prompt": prompt, "ids": made.sequences[0, len(prompt):].tolist(), "min_margin": min(margins)}


def log_probabilities(model, ids):
    wide = copy.deepcopy(model).double()
    logits = wide(input_ids=torch.tensor([ids]), use_cache=False).logits[0, :-1]
    next_ids = torch.tensor(ids[1:]).unsqueeze(1)
    return {"ids": ids, "log_prob_of_next": logits.log_softmax(-1).gather(1, next_ids)[:, 0].tolist()}


scaling = {"rope_type": "longrope", "factor": 4.0, "short_factor": SHORT, "long_factor": LONG}
models = {
    # The original context stands beside the scaling, as in Phi-3's configurations.
    "llama": llama(scaling, original_max_position_embeddings=ORIGINAL),
    # The factor of cosine and sine is given.
    "llama_given_factor": llama(scaling | {"attention_factor": 1.3}, original_max_position_embeddings=ORIGINAL),
}
generator = torch.Generator().manual_seed(9)
prompts = [torch.randint(3, 512, (length,), generator=generator).tolist() for length in (1, 7, 24, 25, 40)]
result = {"transformers": transformers.__version__, "torch": torch.__version__, "original": ORIGINAL}
with torch.no_grad():
    for name, model in models.items():
        rows = [greedy(model, prompt, 48, use_cache=False) for prompt in prompts]
        result[name] = {
            "config": json.loads(model.config.to_json_string()),
            "greedy": rows,
            "log_probs": [log_probabilities(model, prompt + row["ids"]) for prompt, row in zip(prompts, rows)
                          if len(prompt) in (7, 25)] + [log_probabilities(model, prompts[1])],
        }
    # A Phi-3 with the Llama's weights writes the same, also with its cache, which it begins anew at the change.
    same = phi3(models["llama"])
    result["phi3"] = {"config": json.loads(same.config.to_json_string())}
    for prompt, row in zip(prompts, result["llama"]["greedy"]):
        for use_cache in (False, True):
            assert greedy(same, prompt, 48, use_cache)["ids"] == row["ids"]
path = golden / "generation" / "longrope.json"
path.write_text(json.dumps(result) + "\n")
print(path, path.stat().st_size, min(row["min_margin"] for name in models for row in result[name]["greedy"]))
