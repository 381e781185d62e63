#!/usr/bin/env python3
"""Lets the real Megatron-LM go on with checkpoints that Cairn wrote.

    check_megatron_lm.py FOLDER   every folder in it with a case.json

case.json: {"ranks", "args": of pretrain_gpt.py, "losses": wanted ones, "tolerance"}. The checkpoint lies beside it. With
"program": "bert" or "t5" the arguments are those of examples/bert/pretrain_bert.py or examples/t5/pretrain_t5.py, whose
tokenizer is the word pieces of --vocab-file: theirs comes from the network.
Megatron-LM is a source folder, $MEGATRON_LM, in whose megatron/core/datasets `make` was run; its ranks run on the CPU,
and FusedAdam is one that keeps the states as Apex's does. Ends with 77 where something is missing.
"""
import contextlib
import importlib.util
import json
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import types
import typing
from pathlib import Path


def fail(place, why):
    sys.exit(f"{place}: {why}")


def without_cuda():
    """What Megatron-LM asks of CUDA is answered by the CPU, and NCCL's groups are Gloo's."""
    import torch
    import torch._dynamo  # noqa: F401  before anything is replaced: it lists torch's functions
    import typing_extensions
    typing.override = getattr(typing, "override", typing_extensions.override)
    cpu = torch.device("cpu")

    def is_cuda(x):
        return str(x).startswith("cuda") if isinstance(x, (str, torch.device)) else False

    class OnCpu(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, kinds, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if getattr(func, "__name__", "") == "cuda" or func is torch.Tensor.pin_memory:
                return args[0]
            if func is torch.Tensor.type and len(args) == 1 and not kwargs:
                return func(*args).replace("torch.", "torch.cuda.")
            kwargs.pop("pin_memory", None)
            if is_cuda(kwargs.get("device")) or type(kwargs.get("device")) is int:
                kwargs["device"] = cpu
            return func(*(cpu if is_cuda(a) else a for a in args), **kwargs)

    class Nothing:  # a stream or an event
        def __init__(self, *args, **named):
            pass

        def __getattr__(self, name):
            return lambda *args, **named: None

    cuda, nothing = torch.cuda, lambda *args, **named: None
    state = torch.zeros(16, dtype=torch.uint8)
    cuda.device_count, cuda.current_device = lambda: 1, lambda: 0
    for name in ("set_device", "synchronize", "empty_cache", "_lazy_init", "set_stream", "reset_peak_memory_stats",
                 "manual_seed", "set_rng_state"):
        setattr(cuda, name, nothing)
    cuda.random.manual_seed = cuda.random.set_rng_state = nothing
    cuda._lazy_call = lambda f, **named: f()
    cuda.Stream = cuda.Event = Nothing
    cuda.current_stream = cuda.default_stream = lambda *args, **named: Nothing()
    cuda.stream = cuda.device = lambda *args, **named: contextlib.nullcontext()
    cuda.default_generators = (types.SimpleNamespace(get_state=state.clone, set_state=nothing, manual_seed=nothing),)
    cuda.get_rng_state = cuda.random.get_rng_state = lambda *args, **named: state.clone()
    cuda.initial_seed = lambda: 0
    cuda.get_device_capability = lambda *args, **named: (8, 0)
    cuda.get_device_properties = lambda *args, **named: types.SimpleNamespace(
        major=8, minor=0, name="none", total_memory=2 ** 34, multi_processor_count=1)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        setattr(cuda, name, lambda *args, **named: 0)
    cuda.memory_stats = lambda *args, **named: {}
    cuda.is_current_stream_capturing = lambda: False
    torch.compile = lambda f=None, *args, **named: f if f is not None else lambda g: g
    torch.nn.Module.cuda = lambda self, *args, **named: self
    for name in ("FloatTensor", "HalfTensor", "BFloat16Tensor", "DoubleTensor", "IntTensor", "LongTensor"):
        setattr(cuda, name, getattr(torch, name))
    for name, left in (("init_process_group", {"device_id"}), ("new_group", {"device_id", "pg_options"})):
        own = getattr(torch.distributed, name)
        setattr(torch.distributed, name, lambda *args, own=own, left=left, **named: own(
            *args, **{**{k: v for k, v in named.items() if k not in left}, "backend": "gloo"}))
    OnCpu().__enter__()


def fused_adam():
    """AdamW whose steps are in its groups, as Apex's and Transformer Engine's FusedAdam have them."""
    import torch

    class FusedAdam(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-3, bias_correction=True, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, **others):
            super().__init__(params, dict(lr=lr, bias_correction=bias_correction, betas=betas, eps=eps, weight_decay=weight_decay))

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                group["step"] = group.get("step", 0) + 1
                first, second = group["betas"]
                c1, c2 = 1 - first ** group["step"], 1 - second ** group["step"]
                for p in (p for p in group["params"] if p.grad is not None):
                    own = self.state[p] = self.state[p] or {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    own["exp_avg"].lerp_(p.grad, 1 - first)
                    own["exp_avg_sq"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                    p.addcdiv_(own["exp_avg"], own["exp_avg_sq"].sqrt().div_(math.sqrt(c2)).add_(group["eps"]), value=-group["lr"] / c1)

    module = types.ModuleType("apex.optimizers")
    module.FusedAdam, module.FusedSGD = FusedAdam, torch.optim.SGD
    sys.modules["apex.optimizers"] = module


class WordPieces:
    """What the datasets ask of a tokenizer. As in theirs, texts of a T5 begin with [CLS] and end with [SEP], and its
    sentinels are behind the words of the file."""
    def __init__(self, args):
        words = Path(args.vocab_file).read_text().split("\n")[:-1]
        known = {word: number for number, word in enumerate(words)}
        self.cls, self.sep, self.mask, self.pad = (known[f"[{name}]"] for name in ("CLS", "SEP", "MASK", "PAD"))
        self.bos, self.eos = self.cls, self.sep
        self.inv_vocab = dict(enumerate(words))
        self.additional_special_tokens_ids = [len(words) + i for i in range(args.vocab_extra_ids)]
        self.vocab_size = len(words) + args.vocab_extra_ids
        self.unique_identifiers = {"class": "WordPieces", "words": str(len(words))}


def program_of(name):
    """The module of a program, whose training is that of Megatron-LM, and what it gives to pretrain()."""
    if name == "gpt":
        import pretrain_gpt
        from megatron.training.argument_utils import gpt_config_from_args
        return pretrain_gpt, gpt_config_from_args, {"get_embedding_ranks": pretrain_gpt.get_embedding_ranks}
    from megatron.core.models.bert import bert_layer_specs
    from megatron.core.models.T5 import t5_spec
    from megatron.core.tokenizers.utils.build_tokenizer import vocab_size_with_padding
    from megatron.training import global_vars
    # Transformer Engine's, which is not there.
    bert_layer_specs.bert_layer_with_transformer_engine_spec = None
    t5_spec.TENorm = t5_spec.LNImpl
    sys.path.insert(0, os.path.join(os.environ["MEGATRON_LM"], "examples", name))
    module = importlib.import_module(f"pretrain_{name}")

    def build(args, **others):
        tokenizer = WordPieces(args)
        args.padded_vocab_size = vocab_size_with_padding(tokenizer.vocab_size, args)
        return tokenizer

    module.build_tokenizer = global_vars.build_tokenizer = build
    more = {} if name == "bert" else {"get_embedding_ranks": module.t5_embedding_ranks,
                                      "get_position_embedding_ranks": module.t5_position_embedding_ranks}
    return module, None, more


def run_rank(name):
    without_cuda()
    fused_adam()
    import functools
    import torch
    torch.set_num_threads(1)
    sys.path.insert(0, os.environ["MEGATRON_LM"])
    from megatron.core.datasets import utils
    from megatron.core.enums import ModelType
    from megatron.training import training
    from megatron.training.argument_utils import pretrain_cfg_container_from_args
    from megatron.training.arguments import parse_and_validate_args
    utils.compile_helpers = lambda: None
    training.initialize_megatron = functools.partial(training.initialize_megatron, allow_no_cuda=True)
    program, config_of, more = program_of(name)
    data = program.train_valid_test_datasets_provider
    data.is_distributed = True
    args = parse_and_validate_args(args_defaults={"tokenizer_type": "NullTokenizer"})
    config = pretrain_cfg_container_from_args(args, *([config_of(args)] if config_of else []))
    model = [] if config_of else [program.model_provider]
    training.pretrain(config, data, ModelType.encoder_or_decoder, program.forward_step, *model, **more)


def losses_of(case, place, folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(case["ranks"]):
        environment = dict(
            os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
            LOCAL_RANK=str(rank), WORLD_SIZE=str(case["ranks"]), CUDA_VISIBLE_DEVICES="", CUDA_DEVICE_MAX_CONNECTIONS="1")
        log = open(folder / f"rank{rank}", "w")
        ranks.append(subprocess.Popen(
            [sys.executable, __file__, "--rank", case.get("program", "gpt"), *case["args"], "--load", str(place), "--data-cache-path", str(folder)],
            env=environment, stdout=log, stderr=subprocess.STDOUT))
    codes = [rank.wait(timeout=600) for rank in ranks]
    text = (folder / f"rank{case['ranks'] - 1}").read_text()
    if any(codes):
        fail(place.name, text[-4000:])
    losses = [float(loss) for loss in re.findall(r"iteration +\d+/.*? lm loss: (\S+)", text)]
    if len(losses) > 1:  # the second line has the mean of two iterations
        losses[1] = 2 * losses[1] - losses[0]
    return losses


def main():
    if sys.argv[1:2] == ["--rank"]:
        name = sys.argv[2]
        del sys.argv[1:3]
        return run_rank(name)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = os.environ.get("MEGATRON_LM")
    why = next((f"no {name}" for name in ("torch", "psutil", "einops") if importlib.util.find_spec(name) is None), None)
    if source is None:
        why = "MEGATRON_LM is not set"
    elif not list(Path(source, "megatron/core/datasets").glob("helpers_cpp*.so")):
        why = "the helpers of Megatron-LM's datasets are not built: run make in megatron/core/datasets"
    if why:
        print(why)
        sys.exit(77)
    cases = sorted(Path(sys.argv[1]).glob("*/case.json"))
    if not cases:
        fail(sys.argv[1], "no case.json")
    for file in cases:
        case = json.loads(file.read_text())
        with tempfile.TemporaryDirectory() as folder:
            got = losses_of(case, file.parent, Path(folder))
        if len(got) != len(case["losses"]) or any(
                not abs(a - b) < case["tolerance"] for a, b in zip(got, case["losses"])):
            fail(file.parent.name, f"losses {got}, not {case['losses']}")


if __name__ == "__main__":
    main()
