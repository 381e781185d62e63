"""Modules at the places where DeepSpeed has them."""

from __future__ import annotations

import logging
from typing import Any

from ..data import RepeatingLoader
from . import zero_to_fp32

logger = logging.getLogger("cairn")


def log_dist(message: object, ranks: Any = None, level: Any = logging.INFO) -> None:
    """Logs a message on some ranks; with none given, or -1, on all."""
    from .. import comm

    rank = comm.get_rank() if comm.is_initialized() else 0
    if ranks is None or -1 in ranks or rank in ranks:
        logger.log(level, "[Rank %d] %s", rank, message)


__all__ = ["RepeatingLoader", "log_dist", "logger", "zero_to_fp32"]
