#!/usr/bin/env python3
"""Lets the real Megatron-DeepSpeed go on with checkpoints that Cairn wrote.

    check_megatron_deepspeed.py FOLDER   every folder in it with a case.json

case.json: {"ranks", "args": of pretrain_gpt.py, "config": DeepSpeed's, "losses": wanted ones,
"tolerance"}. The checkpoint lies beside it. Megatron-DeepSpeed is a source folder,
$MEGATRON_DEEPSPEED; its ranks run on the CPU. Ends with 77 where it or a package is missing.
"""
import importlib.util
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import tempfile
from pathlib import Path


def fail(place, why):
    sys.exit(f"{place}: {why}")


def run_rank():
    """One rank of pretrain_gpt.py, with stand-ins for what only GPUs have."""
    from unittest.mock import MagicMock
    import transformers  # noqa: F401  before the stand-ins, which it would find
    for name in ("", ".transforms", ".datasets", ".transforms.autoaugment"):
        sys.modules.setdefault("torchvision" + name, MagicMock(__spec__=None))
    import deepspeed.comm.torch
    import torch
    deepspeed.comm.torch.build_shm_op = lambda: None  # would compile for a minute
    torch.cuda.is_available = lambda: False
    torch.optim.Adam = torch.optim.AdamW  # as Apex's FusedAdam decays
    step = torch.optim.AdamW.step

    def decoupled(self, *args, **named):
        for group in self.param_groups:  # a checkpoint may say otherwise
            group["decoupled_weight_decay"] = True
        return step(self, *args, **named)
    torch.optim.AdamW.step = decoupled
    from deepspeed.runtime.engine import DeepSpeedEngine
    save = DeepSpeedEngine.save_checkpoint

    def saving(self, folder, *args, client_state=None, **named):
        # A model with experts: DeepSpeed 0.19 wants a dict where Megatron-DeepSpeed has a method.
        if self.has_moe_layers:
            vars(self.module)["universal_checkpoint_info"] = client_state.pop("universal_checkpoint_info")
        save(self, folder, *args, client_state=client_state or {}, **named)
        vars(self.module).pop("universal_checkpoint_info", None)
    DeepSpeedEngine.save_checkpoint = saving
    source = os.environ["MEGATRON_DEEPSPEED"]
    sys.path.insert(0, source)
    from megatron.model.transformer import CoreAttention
    attend = CoreAttention.forward
    CoreAttention.forward = lambda self, q, k, v, *rest, **named: attend(
        self, q.contiguous(), k.contiguous(), v.contiguous(), *rest, **named)
    sys.argv[0] = source + "/pretrain_gpt.py"
    runpy.run_path(sys.argv[0], run_name="__main__")


def losses_of(case, place, folder):
    config = folder / "deepspeed.json"
    config.write_text(json.dumps(case["config"]))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(case["ranks"]):
        environment = dict(
            os.environ, DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(case["ranks"]),
            CUDA_VISIBLE_DEVICES="", CUDA_DEVICE_MAX_CONNECTIONS="1", LOCAL_SIZE=str(case["ranks"]))
        log = open(folder / f"rank{rank}", "w")
        ranks.append(subprocess.Popen(
            [sys.executable, __file__, "--rank", *case["args"], "--load", str(place), "--deepspeed",
             "--deepspeed_config", str(config)], env=environment, stdout=log, stderr=subprocess.STDOUT))
    codes = [rank.wait(timeout=600) for rank in ranks]
    text = "".join((folder / f"rank{rank}").read_text() for rank in range(case["ranks"]))
    if any(codes):
        fail(place.name, text[-4000:])
    return [float(loss) for loss in re.findall(r"iteration +\d+/.*? lm loss: (\S+)", text)]


def main():
    if sys.argv[1:2] == ["--rank"]:
        del sys.argv[1]
        return run_rank()
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    missing = [name for name in ("torch", "deepspeed", "transformers") if importlib.util.find_spec(name) is None]
    if "MEGATRON_DEEPSPEED" not in os.environ or missing:
        print("MEGATRON_DEEPSPEED is not set" if not missing else f"no {missing[0]}")
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
