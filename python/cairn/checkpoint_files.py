"""Files of weights."""

from __future__ import annotations

import os
import tempfile

import torch

from ._library import _core


def save_weights(state: dict[str, torch.Tensor], path: str) -> None:
    """Writes a state_dict, as .safetensors or as torch.save does. The file has its
    name when all of it is there."""
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.partial")
    try:
        if name.endswith(".safetensors"):
            from safetensors.torch import save_file

            save_file({key: value.contiguous().clone() for key, value in state.items()}, partial, {"format": "pt"})
        else:
            torch.save(state, partial)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load(path: str | os.PathLike, tag: str | None = None, fp32: bool = False) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint, as a dict of tensors: Cairn's own, DeepSpeed's,
    Megatron's, Hugging Face's, torch.save's or safetensors, on any number of ranks.
    Nothing in the file is executed."""
    with tempfile.TemporaryDirectory(prefix="cairn-") as folder:
        file = os.path.join(folder, "weights.pt")
        _core.convert(os.fspath(path), file, "torch", tag or "", fp32)
        return torch.load(file, map_location="cpu", weights_only=True)["model"]
