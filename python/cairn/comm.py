"""The job's ranks: starts them, and has the collectives of torch.distributed.

One store serves both: torch.distributed meets at the place where the ranks of the
job met."""

from __future__ import annotations

import atexit
import importlib
import os
from typing import Any, Optional

import torch
import torch.distributed as _torch_distributed

from ._library import _core

_world = None


def world() -> _core.World:
    """This process's place in the job, joined on the first call."""
    global _world
    if _world is None:
        _world = _join("")
    return _world


def _join(backend: str) -> _core.World:
    # torch.distributed meets at the same store, and its client can show no secret.
    os.environ.pop("CAIRN_JOB_SECRET", None)
    return _core.init_distributed(backend)


def init_distributed(
    dist_backend: Optional[str] = None,
    auto_mpi_discovery: bool = True,
    distributed_port: Any = None,
    verbose: bool = True,
    timeout: Any = None,
    init_method: Any = None,
    dist_init_required: Any = None,
    config: Any = None,
    rank: Any = -1,
    world_size: Any = -1,
) -> None:
    """Joins the job that the launcher's environment describes, and
    torch.distributed with it. Without a launcher the job is this process alone.
    Further calls do nothing.

    The other arguments are DeepSpeed's: the environment says the same, and one
    that contradicts it is refused."""
    global _world
    if init_method not in (None, "env://"):
        raise _core.UsageError(
            f"init_distributed: init_method {init_method!r} is not used; start the ranks with "
            "`cairn launch`, torchrun, srun or mpirun, whose environment is read"
        )
    if distributed_port is not None:
        os.environ.setdefault("MASTER_PORT", str(distributed_port))
    if _world is None:
        _world = _join(dist_backend or "")
    for name, asked, found in (("rank", rank, _world.rank), ("world_size", world_size, _world.size)):
        if asked not in (-1, None, found):
            raise _core.UsageError(
                f"init_distributed: {name}={asked} contradicts the launcher's environment, which says {found}"
            )
    # Scripts look these up, also where no launcher has set them.
    for name, value in (("RANK", _world.rank), ("WORLD_SIZE", _world.size), ("LOCAL_RANK", _world.local_rank)):
        os.environ.setdefault(name, str(value))
    if dist_init_required is not False:
        _join_torch_distributed(dist_backend, timeout)


def _join_torch_distributed(backend, timeout):
    if not _torch_distributed.is_available() or _torch_distributed.is_initialized():
        return
    place = _world.store_address
    if place:
        host, port = place.rsplit(":", 1)
        store = _torch_distributed.TCPStore(host, int(port), is_master=False, wait_for_workers=False)
        store = _torch_distributed.PrefixStore("torch.distributed", store)
    else:
        store = _torch_distributed.HashStore()
    # Imported later, as torch.compile does, its default arguments would keep the group
    # and the group's threads until the interpreter is gone.
    importlib.import_module("torch.distributed.nn.functional")
    on_gpu = _world.device_name.startswith("cuda")
    options = {} if timeout is None else {"timeout": timeout}
    _torch_distributed.init_process_group(
        backend=backend or ("nccl" if on_gpu else "gloo"),
        store=store,
        rank=_world.rank,
        world_size=_world.size,
        **options,
    )
    # A thread of a collective may be the last to let go of a tensor of Python's. That
    # has to happen while there is an interpreter.
    atexit.register(_leave_torch_distributed)
    if on_gpu:
        torch.cuda.set_device(torch.device(_world.device_name))


def _leave_torch_distributed():
    if _torch_distributed.is_initialized():
        _torch_distributed.destroy_process_group()


def is_initialized() -> bool:
    """True once the job has been joined."""
    return _world is not None


def is_available() -> bool:
    """True: torch with collectives is what this package is built for."""
    return True


def get_rank(group: Any = None) -> int:
    """This process's number among the ranks of the job, or of a group."""
    return world().rank if group is None else _torch_distributed.get_rank(group)


def get_world_size(group: Any = None) -> int:
    """The number of ranks of the job, or of a group."""
    return world().size if group is None else _torch_distributed.get_world_size(group)


def get_local_rank() -> int:
    """This process's number among the ranks of its machine."""
    return world().local_rank


def barrier(group: Any = None, **options: Any) -> None:
    """Returns when every rank has come."""
    if group is None:
        world().barrier()
    else:
        _torch_distributed.barrier(group, **options)


def of_rank_0(value: Any) -> Any:
    """What rank 0 has: a value that every rank brings, and that should be the same."""
    if get_world_size() == 1 or not _torch_distributed.is_initialized():
        return value
    box = [value]
    _torch_distributed.broadcast_object_list(box, 0)
    return box[0]


def on_any_rank(value: bool) -> bool:
    """True where it is on any rank of the job. Every rank asks, and waits for the others
    and for the work of its device."""
    return value if get_world_size() == 1 else world().any(value)


def __getattr__(name: str) -> Any:
    # Everything else is torch's: all_reduce, broadcast, ReduceOp, new_group, …
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_torch_distributed, name)
