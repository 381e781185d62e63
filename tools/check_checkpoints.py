#!/usr/bin/env python3
"""Opens checkpoints that Cairn wrote with the programs that they are meant for.

    check_checkpoints.py torch FOLDER           torch.load(weights_only=True) of every X.pt
    check_checkpoints.py safetensors FOLDER     safetensors' load_file of every X.safetensors
    check_checkpoints.py native FOLDER          every folder in it, read as docs/checkpoint-format.md describes
    check_checkpoints.py deepspeed FOLDER       DeepSpeed's zero_to_fp32 of every folder in it
    check_checkpoints.py deepspeed-load FOLDER  DeepSpeed's load_checkpoint, also of universal ones, and a step from there

What must come out lies beside it, written in another way: X.json beside a file,
expected.safetensors in a folder. Ends with 77 where a package is missing.
"""
import contextlib
import io
import json
import math
import os
import struct
import sys
from pathlib import Path

# DeepSpeed looks for GPUs, launchers and compilers unless told not to.
os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1",
                  MASTER_ADDR="127.0.0.1", MASTER_PORT="0")


def fail(place, why):
    sys.exit(f"{place}: {why}")


def same_number(a, b):
    return a == b or (isinstance(a, float) and math.isnan(a) and isinstance(b, float) and math.isnan(b))


def compare(value, wanted, place):
    """`wanted` is what the test dumped: JSON values, and {kind: …} for the rest."""
    import torch
    if not isinstance(wanted, dict):
        if type(value) is not type(wanted) or not same_number(value, wanted):
            fail(place, f"{value!r} instead of {wanted!r}")
        return
    kind, content = next(iter(wanted.items()))
    if kind == "tensor":
        dtype = getattr(torch, content["dtype"])
        if value.dtype != dtype or list(value.shape) != content["shape"]:
            fail(place, f"{value.dtype} {list(value.shape)} instead of {content}")
        got = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        if got.hex() != content["hex"]:
            fail(place, "other elements")
        group = content.get("shares")
        if group is not None:
            first = SHARED.setdefault(group, value.untyped_storage().data_ptr())
            if first != value.untyped_storage().data_ptr():
                fail(place, "does not share the memory that it should")
    elif kind == "bytes":
        if value != bytes.fromhex(content):
            fail(place, "other bytes")
    elif kind == "real":
        if struct.pack("<d", value).hex() != content:
            fail(place, f"{value!r} instead of {content}")
    elif kind in ("list", "tuple"):
        if type(value).__name__ != kind or len(value) != len(content):
            fail(place, f"{type(value).__name__} instead of a {kind} of {len(content)}")
        for i, (item, want) in enumerate(zip(value, content)):
            compare(item, want, f"{place}[{i}]")
    elif kind == "dict":
        if len(value) != len(content):
            fail(place, f"{len(value)} members instead of {len(content)}")
        for (key, item), (want_key, want) in zip(value.items(), content):
            compare(key, want_key, f"{place} key")
            compare(item, want, f"{place}.{key}")
    else:
        fail(place, f"cannot compare {kind}")


SHARED = {}


def check_files(folder, suffix, load):
    files = sorted(folder.glob("*" + suffix))
    if not files:
        fail(folder, f"no *{suffix}")
    for file in files:
        SHARED.clear()
        wanted = json.loads(file.with_suffix(".json").read_text())
        value = load(file)
        if suffix == ".safetensors":
            value = {key: value[key] for key, _ in wanted["dict"]} if len(value) == len(wanted["dict"]) else value
        compare(value, wanted, file.name)


def check_torch(folder):
    import torch
    check_files(folder, ".pt", lambda file: torch.load(file, weights_only=True))


def check_safetensors(folder):
    import torch
    from safetensors.torch import load_file
    check_files(folder, ".safetensors", load_file)


def same_weights(got, wanted, place):
    import torch
    if set(got) != set(wanted):
        fail(place, f"other names: {sorted(set(got) ^ set(wanted))}")
    for name, tensor in wanted.items():
        if got[name].shape != tensor.shape or not torch.equal(got[name].float(), tensor.float()):
            fail(place, f"{name} differs")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return f"{crc ^ 0xFFFFFFFF:08x}"


def read_native(folder):
    """The tensors of a checkpoint, without Cairn: the manifest, and Hugging Face's own library."""
    import torch
    from safetensors import safe_open
    manifest = json.loads((folder / "manifest.json").read_text())
    contents, flat = [], []
    for file in manifest["files"]:
        path = folder / file["name"]
        if path.stat().st_size != file["bytes"]:
            fail(path, "another size")
        with safe_open(path, "pt") as opened:
            contents.append({key: opened.get_tensor(key) for key in opened.keys()})
        flat.append(path.read_bytes())
    tensors = {}
    for name, tensor in manifest["tensors"].items():
        shape = tensor["shape"]
        whole = None
        for part in tensor["slices"]:
            box = part.get("box", {"begin": [0] * len(shape), "size": shape})
            count = math.prod(box["size"])
            key = name + (f"[at {', '.join(map(str, box['begin']))}]" if "box" in part else "")
            if (part["begin"], part["end"]) != (0, count):
                key += f"[{part['begin']}:{part['end']}]"
            values = contents[part["file"]][key].reshape(-1)
            raw = values.view(torch.uint8).numpy().tobytes() if values.numel() else b""
            if flat[part["file"]][part["at"]:part["at"] + len(raw)] != raw:
                fail(name, "lies elsewhere in the file")
            block = 1 << 20
            if "".join(crc32c(raw[i:i + block]) for i in range(0, len(raw), block)) != part["crc32c"]:
                fail(name, "other checksums")
            if whole is None:
                whole = torch.zeros(shape, dtype=values.dtype)
            place = whole
            for d, (begin, size) in enumerate(zip(box["begin"], box["size"])):
                place = place.narrow(d, begin, size)
            elements = place.reshape(-1).clone()
            elements[part["begin"]:part["end"]] = values
            place.copy_(elements.reshape(place.shape))
        tensors[name] = whole
    return tensors


def check_native(folder):
    from safetensors.torch import load_file
    cases = sorted(case for case in folder.iterdir() if case.is_dir())
    if not cases:
        fail(folder, "no folders")
    for case in cases:
        same_weights(read_native(case), load_file(folder / f"{case.name}.safetensors"), case.name)


def check_deepspeed(folder):
    import torch
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    from safetensors.torch import load_file
    cases = sorted(case for case in folder.iterdir() if case.is_dir())
    if not cases:
        fail(folder, "no folders")
    for case in cases:
        wanted = load_file(case / "expected.safetensors")
        tag = case / (case / "latest").read_text()
        if any(tag.glob("*_optim_states.pt")):
            with contextlib.redirect_stdout(io.StringIO()):
                got = get_fp32_state_dict_from_zero_checkpoint(case)
        else:  # stage 0: zero_to_fp32 is not for it
            got = torch.load(tag / "mp_rank_00_model_states.pt", weights_only=False)["module"]
        same_weights(got, wanted, case.name)


def small_model():
    """That of the golden checkpoints."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = torch.nn.Linear(8, 17)
            self.norm = torch.nn.LayerNorm(17)
            self.fc2 = torch.nn.Linear(17, 4, bias=False)

        def forward(self, x):
            return self.fc2(torch.tanh(self.norm(self.fc1(x))))

    return Model()


def flat_values(optimizer):
    """What ZeRO 1 and 2 step on, on one rank. After a universal checkpoint the
    fragments that safe_get_full_fp32_param reads are others."""
    names = {id(parameter): name for parameter, name in optimizer.param_names.items()}
    result = {}
    for parameters, flat in zip(optimizer.bit16_groups, optimizer.single_partition_of_fp32_groups):
        state = optimizer.optimizer.state[flat]
        begin = 0
        for parameter in parameters:
            end = begin + parameter.numel()
            for kind, values in {"": flat, "exp_avg": state["exp_avg"]}.items():
                result[kind, names[id(parameter)]] = values.detach()[begin:end].view(parameter.shape)
            begin = end
    return result


def check_deepspeed_load(folder):
    import torch
    import deepspeed
    import torch.distributed as dist
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    from safetensors.torch import load_file
    deepspeed.comm.torch.build_shm_op = lambda: None  # would compile for a minute
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    for case in sorted(case for case in folder.iterdir() if case.is_dir()):
        wanted = load_file(case / "expected.safetensors")
        config = json.loads((case / "config.json").read_text())
        model = small_model()
        engine, optimizer, _, _ = deepspeed.initialize(
            model=model, config=config,
            optimizer=torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.1))
        path, client = engine.load_checkpoint(str(case))
        if path is None or client.get("note") != "client":
            fail(case.name, f"not loaded: {path}, {client}")
        if engine.global_steps != 10:
            fail(case.name, f"at step {engine.global_steps}")
        if hasattr(optimizer, "_lazy_init_hp_params_optimizer_state"):
            optimizer._lazy_init_hp_params_optimizer_state()  # else they can be asked for after a step only
        universal = config.get("checkpoint", {}).get("load_universal")
        flat = flat_values(optimizer) if universal and config["zero_optimization"]["stage"] < 3 else {}
        for name, parameter in engine.module.named_parameters():
            if flat:
                got = {kind: flat[kind, name] for kind in ("", "exp_avg")}
            elif config["zero_optimization"]["stage"] == 0:
                state = optimizer.state[parameter] if optimizer.state else {}
                got = {"": parameter, "exp_avg": state.get("exp_avg")}
            else:
                got = {"": safe_get_full_fp32_param(parameter),
                       "exp_avg": safe_get_full_optimizer_state(parameter, "exp_avg")}
            for kind, tensor in got.items():
                want = wanted[f"{kind}/{name}" if kind else name]
                if tensor is None or not torch.equal(tensor.float().cpu(), want):
                    fail(case.name, f"{kind} {name} differs")
        dtype = next(engine.module.parameters()).dtype
        engine.backward(engine(torch.ones(8, 8, dtype=dtype)).float().square().mean())
        engine.step()
        if engine.global_steps != 11:
            fail(case.name, "does not go on")


def main():
    checks = {"torch": check_torch, "safetensors": check_safetensors, "native": check_native,
              "deepspeed": check_deepspeed, "deepspeed-load": check_deepspeed_load}
    if len(sys.argv) != 3 or sys.argv[1] not in checks:
        sys.exit(__doc__)
    try:
        checks[sys.argv[1]](Path(sys.argv[2]))
    except ModuleNotFoundError as error:
        print(error)
        sys.exit(77)


if __name__ == "__main__":
    main()
