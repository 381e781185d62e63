"""The groups of ranks that divide experts."""

from __future__ import annotations

from typing import Optional

from .. import comm
from .._library import _core

_meshes: dict[int, _core.Mesh] = {}


def mesh_of(ranks: int) -> Optional[_core.Mesh]:
    """The mesh in which so many neighbouring ranks divide the experts; none for one rank.
    Every rank asks for it at the same time."""
    if ranks == 1:
        return None
    if comm.world().size % ranks != 0:
        raise _core.UsageError(f"moe.layer.MoE: ep_size={ranks} does not divide the job's {comm.world().size} ranks")
    if ranks not in _meshes:
        _meshes[ranks] = _core.Mesh.of_experts(comm.world(), ranks)
    return _meshes[ranks]
