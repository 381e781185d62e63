#!/usr/bin/env python3
"""Writes tests/golden/checkpoints_core/families: tiny models of Megatron-Core (with experts, with Qwen's attention, BERT,
T5), random weights, as its formats `torch` and `torch_dist` hold them, with inputs and logits.

    pip install torch==2.11.0 einops
    MEGATRON_LM=FOLDER_OF_ITS_SOURCE tools/golden/core_families.py
"""

import argparse
import pathlib
import sys

import safetensors.torch
import torch

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tools"))
import check_megatron_core  # noqa: E402

golden = root / "tests" / "golden" / "checkpoints_core" / "families"
SIZES = dict(num_layers=2, hidden_size=16, num_attention_heads=4, num_query_groups=2, group_query_attention=True, kv_channels=4,
             ffn_hidden_size=24, padded_vocab_size=64, vocab_size=61, max_position_embeddings=32, seq_length=32,
             position_embedding_type="rope", rotary_base=10000, rotary_percent=1.0, normalization="RMSNorm",
             layernorm_epsilon=1e-5, swiglu=True, add_bias_linear=False, untie_embeddings_and_output_weights=True,
             tensor_model_parallel_size=1, pipeline_model_parallel_size=1, expert_model_parallel_size=1,
             hidden_dropout=0.0, attention_dropout=0.0, openai_gelu=False, bias_gelu_fusion=False, add_qkv_bias=False,
             qk_layernorm=False, num_experts=None, moe_layer_freq=1)
LEARNED = dict(position_embedding_type="learned_absolute", normalization="LayerNorm", swiglu=False, add_bias_linear=True,
               untie_embeddings_and_output_weights=False, num_query_groups=4, group_query_attention=False)
MODELS = {
    "experts": dict(num_experts=4, moe_router_topk=2, moe_ffn_hidden_size=20, moe_router_pre_softmax=False),
    "qwen": dict(add_qkv_bias=True, qk_layernorm=True),
    "bert": dict(**LEARNED, bert_binary_head=True, encoder_num_layers=2, decoder_num_layers=None),
    "t5": dict(**LEARNED, bert_binary_head=True, encoder_num_layers=2, decoder_num_layers=1),
}


def main():
    torch.cuda.synchronize = lambda *device: None  # there is none
    check_megatron_core.start_megatron()
    from megatron.core import dist_checkpointing
    for seed, (name, more) in enumerate(MODELS.items()):
        args = argparse.Namespace(**SIZES, **{k: v for k, v in more.items() if k not in SIZES})
        for key, value in more.items():
            setattr(args, key, value)
        inputs = {"bert": ["token_types"], "t5": ["decoder_input_ids"]}.get(name, [])
        model = check_megatron_core.model_of(args, inputs)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                values = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(values * (0.3 if parameter.dim() > 1 else 0.1) + (1 if "norm" in key else 0))
        io = {"input_ids": torch.randint(0, 61, (2, 12), generator=generator)}
        for key in inputs:
            shape, highest = ((2, 12), 2) if key == "token_types" else ((2, 7), 61)
            io[key] = torch.randint(0, highest, shape, generator=generator)
        logits, sentences = check_megatron_core.logits_of(model, io)
        io["logits"] = logits[..., :61].contiguous()
        if sentences is not None:
            io["sentence_logits"] = sentences
        folder = golden / name
        beside = {"args": args, "checkpoint_version": 3.0, "iteration": 5}
        rank = folder / "torch" / "iter_0000005" / "mp_rank_00"
        rank.mkdir(parents=True, exist_ok=True)
        torch.save({**beside, "model": model.state_dict()}, rank / "model_optim_rng.pt")
        dist = folder / "torch_dist" / "iter_0000005"
        dist.mkdir(parents=True, exist_ok=True)
        dist_checkpointing.save({**beside, "model": model.sharded_state_dict(metadata={"singleton_local_shards": False})}, str(dist))
        for form in ("torch", "torch_dist"):
            (folder / form / "latest_checkpointed_iteration.txt").write_text("5")
        safetensors.torch.save_file(io, folder / "io.safetensors")
        print(name, sorted(key for key in model.state_dict() if ".0." in key))


if __name__ == "__main__":
    main()
