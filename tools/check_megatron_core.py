#!/usr/bin/env python3
"""Opens checkpoints that Cairn wrote for Megatron-Core with the real one.

    check_megatron_core.py dcp FOLDER   torch.distributed.checkpoint reads every tensor in it
    check_megatron_core.py core FOLDER  Megatron-Core loads every folder in it, strictly, and gives
                                        the logits of io.safetensors there
    check_megatron_core.py grouped FOLDER  its grouped experts load the experts of FOLDER/torch_dist, strictly, with
                                        the weights of the grouped experts in FOLDER/torch; Transformer Engine, whose
                                        layers need a GPU, is a stand-in with its parameters

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


def model_of(args, io=()):
    """The model of the args. `io` names the inputs, by which a BERT and a T5 are told from a GPT."""
    import torch.nn.functional as F
    from megatron.core.models.bert import bert_layer_specs, bert_model
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.T5 import t5_model, t5_spec
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
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
    common = dict(
        vocab_size=args.padded_vocab_size, max_sequence_length=args.max_position_embeddings,
        position_embedding_type=args.position_embedding_type,
        share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights)
    if "token_types" in io:
        return bert_model.BertModel(
            config, 2, bert_layer_specs.bert_layer_local_spec, add_binary_head=args.bert_binary_head, **common).eval()
    if "decoder_input_ids" in io:
        import copy
        encoder = copy.deepcopy(config)
        encoder.num_layers, config.num_layers = args.encoder_num_layers, args.decoder_num_layers
        # Its own specs for blocks of local layers have Transformer Engine's norm at the end.
        return t5_model.T5Model(
            config, encoder,
            TransformerBlockSubmodules(
                [t5_spec.encoder_model_with_local_spec()] * encoder.num_layers, layer_norm=t5_spec.LNImpl),
            TransformerBlockSubmodules(
                [t5_spec.decoder_model_with_local_spec()] * config.num_layers, layer_norm=t5_spec.LNImpl),
            **common).eval()
    return GPTModel(
        config, get_gpt_layer_local_spec(
            normalization=args.normalization, num_experts=experts, moe_grouped_gemm=False,
            qk_layernorm=attention["qk_layernorm"]), rotary_base=args.rotary_base, **common).eval()


def logits_of(model, io):
    """The model's logits and, of a BERT with a head of next sentences, those of that head."""
    import torch
    ids = io["input_ids"]
    length = ids.shape[1]
    masked = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)[None, None]
    with torch.no_grad():
        if "token_types" in io:
            return model(ids, torch.ones_like(ids), io["token_types"])
        if "decoder_input_ids" in io:
            decoder = io["decoder_input_ids"]
            size = decoder.shape[1]
            none = torch.zeros(1, 1, size, length, dtype=torch.bool)
            return model(ids, decoder, torch.zeros_like(masked), masked[..., :size, :size], none), None
        return model(ids, torch.arange(length)[None].expand_as(ids), masked), None


def check_core(folder):
    import torch
    from safetensors.torch import load_file
    start_megatron()
    from megatron.core import dist_checkpointing
    for place in sorted(place for place in folder.iterdir() if place.is_dir()):
        tracked = (place / "latest_checkpointed_iteration.txt").read_text()
        tag = place / (tracked if tracked == "release" else f"iter_{int(tracked):07d}")
        io = load_file(place / "io.safetensors")
        if dist_checkpointing.check_is_distributed_checkpoint(tag):
            args = dist_checkpointing.load_common_state_dict(tag)["args"]
            model = model_of(args, io)
            state = dist_checkpointing.load({"model": model.sharded_state_dict()}, str(tag))["model"]
        else:
            saved = torch.load(tag / "mp_rank_00/model_optim_rng.pt", weights_only=False)
            model, state = model_of(saved["args"], io), saved["model"]
        model.load_state_dict(state, strict=True)
        logits, sentences = logits_of(model, io)
        for got, name in ((logits[..., :io["logits"].shape[-1]], "logits"), (sentences, "sentence_logits")):
            if name in io and not (difference := (got - io[name]).abs().max().item()) < 1e-5:
                fail(place.name, f"{name} differ by {difference}")


def without_transformer_engine():
    """Modules under Transformer Engine's names, of which the grouped linear layer alone has parameters."""
    import importlib.abc
    import importlib.machinery
    import importlib.metadata
    import types
    from unittest.mock import MagicMock
    import torch

    class GroupedLinear(torch.nn.Module):
        def __init__(self, num_gemms, in_features, out_features, bias=False, **others):
            super().__init__()
            self.num_gemms, self.use_bias = num_gemms, bias
            self.fp8, self.fp8_calibration, self.fp8_meta = False, False, {"fp8_checkpoint": False}
            for i in range(num_gemms):
                self.register_parameter(f"weight{i}", torch.nn.Parameter(torch.zeros(out_features, in_features)))

        def init_fp8_metadata(self, **others):
            pass

        def get_extra_state(self):
            return torch.empty(0, dtype=torch.uint8)

        def set_extra_state(self, state):
            pass

    class Module(types.ModuleType):
        __path__ = []
        __version__ = version = "2.9.0"

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            if name in ("pytorch", "common", "recipe", "distributed", "fp8", "float8_tensor", "ops"):
                return importlib.import_module(f"{self.__name__}.{name}")
            made = GroupedLinear if name == "GroupedLinear" else \
                type(name, (torch.nn.Module,), {}) if name[0].isupper() else MagicMock()
            setattr(self, name, made)
            return made

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name, path, target=None):
            ours = name.split(".")[0] == "transformer_engine"
            return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

        def create_module(self, spec):
            return Module(spec.name)

        def exec_module(self, module):
            pass

    sys.meta_path.insert(0, Finder())
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: \
        Module.version if name.replace("_", "-") == "transformer-engine" else version(name)


def check_grouped(folder):
    import torch
    import torch.nn.functional as F
    without_transformer_engine()
    torch.cuda.synchronize = lambda *device: None
    start_megatron()
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.extensions import transformer_engine
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.mlp import MLPSubmodules
    from megatron.core.transformer.moe import experts
    tag = next((folder / "torch_dist").glob("iter_*"))
    saved = torch.load(next((folder / "torch").glob("iter_*/mp_rank_00/model_optim_rng.pt")), weights_only=False)
    args = saved["args"]
    config = TransformerConfig(
        num_layers=args.num_layers, hidden_size=args.hidden_size, num_attention_heads=args.num_attention_heads,
        num_moe_experts=args.num_experts, moe_ffn_hidden_size=args.moe_ffn_hidden_size, gated_linear_unit=args.swiglu,
        activation_func=F.silu, add_bias_linear=args.add_bias_linear, use_cpu_initialization=True, moe_grouped_gemm=True,
        bias_activation_fusion=False)
    submodules = getattr(experts, "TEGroupedMLPSubmodules", MLPSubmodules)(
        linear_fc1=transformer_engine.TEColumnParallelGroupedLinear,
        linear_fc2=transformer_engine.TERowParallelGroupedLinear)
    groups = ProcessGroupCollection.use_mpu_process_groups()
    layers = [experts.TEGroupedMLP(args.num_experts, config, submodules, pg_collection=groups)
              for _ in range(args.num_layers)]
    prefix = "decoder.layers.mlp.experts."
    metadata = {"singleton_local_shards": False,
                "dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}
    wanted = {str(number): layer.sharded_state_dict(prefix, ((0, number, len(layers)),), metadata)
              for number, layer in enumerate(layers)}
    loaded = dist_checkpointing.load(wanted, str(tag))
    for number, layer in enumerate(layers):
        layer.load_state_dict({name[len(prefix):]: value for name, value in loaded[str(number)].items()}, strict=True)
        own = f"decoder.layers.{number}.mlp.experts."
        flat = {name[len(own):]: value for name, value in saved["model"].items() if name.startswith(own)}
        if set(flat) != set(layer.state_dict()):
            fail(folder, f"other names: {sorted(set(flat) ^ set(layer.state_dict()))}")
        for name, parameter in layer.named_parameters():
            if not torch.equal(parameter, flat[name]):
                fail(folder, f"{own}{name} differs")


def main():
    checks = {"dcp": check_dcp, "core": check_core, "grouped": check_grouped}
    if len(sys.argv) != 3 or sys.argv[1] not in checks:
        sys.exit(__doc__)
    try:
        checks[sys.argv[1]](Path(sys.argv[2]))
    except ModuleNotFoundError as error:
        print(error)
        sys.exit(77)


if __name__ == "__main__":
    main()
