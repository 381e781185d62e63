#!/usr/bin/env python3
"""Opens checkpoints that Cairn wrote for Megatron-Core with the real one.

    check_megatron_core.py dcp FOLDER   torch.distributed.checkpoint reads every tensor in it
    check_megatron_core.py core FOLDER  Megatron-Core loads every folder in it, strictly, and gives
                                        the logits of io.safetensors there

Megatron-Core comes from PyPI (megatron-core) or from a source folder, $MEGATRON_LM. It runs on the
CPU, in one process. Ends with 77 where a package is missing.
"""
import contextlib
import os
import sys
import warnings
from pathlib import Path


def fail(place, why):
    sys.exit(f"{place}: {why}")


def check_dcp(folder):
    import torch
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import load_file
    warnings.filterwarnings("ignore", message="torch.distributed is disabled")
    wanted = load_file(folder / "expected.safetensors")
    reader = dcp.FileSystemReader(folder)
    described = {name: info for name, info in reader.read_metadata().state_dict_metadata.items() if hasattr(info, "size")}
    if set(described) != set(wanted):
        fail(folder, f"other names: {sorted(set(described) ^ set(wanted))}")
    got = {name: torch.empty(info.size, dtype=info.properties.dtype) for name, info in described.items()}
    dcp.load(got, storage_reader=reader, no_dist=True)
    for name, tensor in wanted.items():
        if got[name].dtype != tensor.dtype or not torch.equal(got[name], tensor):
            fail(folder, f"{name} differs")


def start_megatron():
    """One process without a GPU: what Megatron-Core asks of one is answered for it."""
    import torch
    if "MEGATRON_LM" in os.environ:
        sys.path.insert(0, os.environ["MEGATRON_LM"])
    if not torch.cuda.is_available():
        torch.cuda.current_device = lambda: torch.device("cpu")
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import get_cuda_rng_tracker
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    parallel_state.initialize_model_parallel()
    get_cuda_rng_tracker().fork = lambda *names: contextlib.nullcontext()


def model_of(args):
    import torch.nn.functional as F
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig
    experts = getattr(args, "num_experts", None)
    attention = dict(add_qkv_bias=getattr(args, "add_qkv_bias", False), qk_layernorm=getattr(args, "qk_layernorm", False))
    if experts:
        attention |= dict(
            num_moe_experts=experts, moe_router_topk=args.moe_router_topk, moe_ffn_hidden_size=args.moe_ffn_hidden_size,
            moe_router_pre_softmax=args.moe_router_pre_softmax, moe_layer_freq=args.moe_layer_freq,
            moe_token_dispatcher_type="allgather", moe_router_load_balancing_type="none")
    config = TransformerConfig(
        **attention,
        num_layers=args.num_layers, hidden_size=args.hidden_size, num_attention_heads=args.num_attention_heads,
        num_query_groups=args.num_query_groups, ffn_hidden_size=args.ffn_hidden_size, kv_channels=args.kv_channels,
        normalization=args.normalization, layernorm_epsilon=args.layernorm_epsilon, add_bias_linear=args.add_bias_linear,
        gated_linear_unit=args.swiglu, activation_func=F.silu if args.swiglu else F.gelu,
        attention_dropout=0, hidden_dropout=0, use_cpu_initialization=True, bias_activation_fusion=False,
        masked_softmax_fusion=False, apply_rope_fusion=False, persist_layer_norm=False)
    return GPTModel(
        config, get_gpt_layer_local_spec(
            normalization=args.normalization, num_experts=experts, moe_grouped_gemm=False,
            qk_layernorm=attention["qk_layernorm"]), vocab_size=args.padded_vocab_size,
        max_sequence_length=args.max_position_embeddings, position_embedding_type=args.position_embedding_type,
        rotary_base=args.rotary_base,
        share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights).eval()


def check_core(folder):
    import torch
    from safetensors.torch import load_file
    start_megatron()
    from megatron.core import dist_checkpointing
    for place in sorted(place for place in folder.iterdir() if place.is_dir()):
        tracked = (place / "latest_checkpointed_iteration.txt").read_text()
        tag = place / (tracked if tracked == "release" else f"iter_{int(tracked):07d}")
        if dist_checkpointing.check_is_distributed_checkpoint(tag):
            args = dist_checkpointing.load_common_state_dict(tag)["args"]
            model = model_of(args)
            state = dist_checkpointing.load({"model": model.sharded_state_dict()}, str(tag))["model"]
        else:
            saved = torch.load(tag / "mp_rank_00/model_optim_rng.pt", weights_only=False)
            model, state = model_of(saved["args"]), saved["model"]
        model.load_state_dict(state, strict=True)
        io = load_file(place / "io.safetensors")
        ids = io["input_ids"]
        length = ids.shape[1]
        with torch.no_grad():
            logits = model(ids, torch.arange(length)[None].expand_as(ids),
                           torch.triu(torch.ones(length, length, dtype=torch.bool), 1)[None, None])
        difference = (logits[..., :io["logits"].shape[-1]] - io["logits"]).abs().max().item()
        if not difference < 1e-5:
            fail(place.name, f"logits differ by {difference}")


def main():
    checks = {"dcp": check_dcp, "core": check_core}
    if len(sys.argv) != 3 or sys.argv[1] not in checks:
        sys.exit(__doc__)
    try:
        checks[sys.argv[1]](Path(sys.argv[2]))
    except ModuleNotFoundError as error:
        print(error)
        sys.exit(77)


if __name__ == "__main__":
    main()
