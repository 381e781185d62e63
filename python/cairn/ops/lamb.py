"""LAMB, which only an engine runs."""

from __future__ import annotations

from typing import Any

from ._for_engine import ForEngine


class FusedLamb(ForEngine):
    """Adam with a trust ratio for each parameter."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        max_coeff: float = 10.0,
        min_coeff: float = 0.01,
    ) -> None:
        super().__init__(
            params,
            "Lamb",
            {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay},
            {"bias_correction": bool(bias_correction), "max_coeff": max_coeff, "min_coeff": min_coeff},
        )


__all__ = ["FusedLamb"]
