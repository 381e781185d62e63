"""Trains a Llama of Hugging Face's, made from its configuration, at ZeRO stage 3:

    cairn launch --num_gpus 2 llama.py

Needs `pip install transformers`.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import cairn

config = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 5, "warmup_type": "linear"}},
    "zero_optimization": {"stage": 3},
}

torch.manual_seed(1)
with cairn.zero.Init(config_dict_or_path=config):
    net = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
        )
    )
engine = cairn.initialize(net, config)[0]
for step in range(1, 21):
    for _ in range(engine.gradient_accumulation_steps()):
        tokens = (torch.randint(0, 8, (2, 1)) + torch.arange(32)) * 3 % 256
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
    if step % 5 == 0 and engine.global_rank == 0:
        print(f"step {step:2d}  loss {loss.item():.3f}  rate {engine.get_lr()[0]:.1e}", flush=True)
engine.save_16bit_model("llama-small", "model.safetensors")
