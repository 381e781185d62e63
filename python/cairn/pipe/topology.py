"""The numbers of stages and of copies of a pipeline."""

from __future__ import annotations


class PipeDataParallelTopology:
    """`num_pp` stages, each on `num_dp` ranks. Neighbours in rank are copies."""

    def __init__(self, num_pp: int, num_dp: int) -> None:
        self._dims = {"pipe": num_pp, "data": num_dp}

    def get_dim(self, axis: str) -> int:
        """The number of parts along "pipe" or "data"; 0 for another axis."""
        return self._dims.get(axis, 0)

    def get_axis_names(self) -> list[str]:
        """The names of the axes, the slowest first."""
        return list(self._dims)

    def world_size(self) -> int:
        """The number of ranks."""
        return self._dims["pipe"] * self._dims["data"]


__all__ = ["PipeDataParallelTopology"]
