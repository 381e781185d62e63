"""Adam. Given to initialize(), the engine's own update takes its place: fused, on
the parameters' shards, in host memory with offload."""

from __future__ import annotations

from typing import Any

import torch


class _Adam(torch.optim.AdamW):
    # Outside of an engine it is torch's, and computes the same.
    def __init__(
        self,
        model_params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        decoupled: bool = True,
        foreach: Any = None,
    ) -> None:
        if amsgrad:
            raise ValueError("Adam with amsgrad=True is not built")
        self.cairn_config = {
            "type": "AdamW" if decoupled else "Adam",
            "params": {"bias_correction": bool(bias_correction), "adam_w_mode": bool(decoupled)},
        }
        super().__init__(
            model_params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay, foreach=foreach
        )
        for group in self.param_groups:
            group["decoupled_weight_decay"] = bool(decoupled)

    def step(self, closure: Any = None) -> Any:
        """Steps without an engine, as torch's Adam; an engine steps by itself."""
        if not self.cairn_config["params"]["bias_correction"]:
            raise RuntimeError("Adam without bias correction works with an engine only: pass it to initialize()")
        return super().step(closure)


class DeepSpeedCPUAdam(_Adam):
    """Adam in host memory, for `offload_optimizer`."""

    def __init__(
        self,
        model_params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        adamw_mode: bool = True,
        fp32_optimizer_states: bool = True,
    ) -> None:
        if not fp32_optimizer_states:
            raise ValueError("DeepSpeedCPUAdam: states are kept in fp32 only")
        super().__init__(model_params, lr, bias_correction, betas, eps, weight_decay, amsgrad, adamw_mode)


class FusedAdam(_Adam):
    """Adam in one kernel, on the device of the model."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        set_grad_none: bool = True,
    ) -> None:
        super().__init__(params, lr, bias_correction, betas, eps, weight_decay, amsgrad, adam_w_mode)


__all__ = ["DeepSpeedCPUAdam", "FusedAdam"]
