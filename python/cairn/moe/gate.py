"""The gate, which chooses experts for tokens."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.nn import functional as F

from .._library import _core


def _jittered(x, by=1e-2):
    """The numbers that the gate sees, each times a random factor between 1 - by and 1 + by."""
    least = torch.tensor(1 - by, device=x.device)
    most = torch.tensor(1 + by, device=x.device)
    return x * torch.distributions.Uniform(least, most).rsample(x.shape)


class TopKGate(torch.nn.Module):
    """Chooses `k` experts for each token by `wg`, in fp32 whatever the model computes in."""

    def __init__(
        self,
        model_dim: int,
        num_experts: int,
        k: int = 1,
        capacity_factor: float = 1.0,
        eval_capacity_factor: float = 1.0,
        min_capacity: int = 8,
        noisy_gate_policy: Optional[str] = None,
        drop_tokens: bool = True,
        use_rts: bool = True,
        top2_2nd_expert_sampling: bool = True,
    ) -> None:
        super().__init__()
        if noisy_gate_policy not in (None, "None", "Jitter", "RSample"):
            raise _core.UsageError(
                f"moe.layer.MoE: unknown noisy_gate_policy {noisy_gate_policy!r}; use None, 'Jitter' or 'RSample'"
            )
        if noisy_gate_policy == "RSample" and k != 1:
            raise _core.UsageError(
                f"moe.layer.MoE: noisy_gate_policy 'RSample' draws the one expert of a token, and k is {k}; leave it out"
            )
        if not 1 <= k <= num_experts:
            raise _core.UsageError(f"moe.layer.MoE: k={k} of {num_experts} experts")
        self.wg = torch.nn.Linear(model_dim, num_experts, bias=False)
        self.k = k
        self.capacity_factor = capacity_factor
        self.eval_capacity_factor = eval_capacity_factor
        self.min_capacity = min_capacity
        self.noisy_gate_policy = noisy_gate_policy
        self.drop_tokens = drop_tokens
        self.use_rts = use_rts
        self.top2_2nd_expert_sampling = top2_2nd_expert_sampling

    def forward(self, tokens: torch.Tensor, mesh: Any) -> tuple[int, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Capacity of an expert, slots and weights of the choices, [k, tokens], tokens that
        chose each expert, and the balance loss."""
        with torch.autocast(tokens.device.type, enabled=False):
            seen = tokens.float()
            if self.training and self.noisy_gate_policy == "Jitter":
                seen = _jittered(seen)
            scores = F.linear(seen, self.wg.weight.float())
        return _core.route(
            scores,
            mesh,
            top_k=self.k,
            capacity_factor=self.capacity_factor if self.training else self.eval_capacity_factor,
            min_capacity=self.min_capacity,
            drop_tokens=self.drop_tokens,
            random_selection=self.training and self.use_rts,
            sample_first=self.training and self.noisy_gate_policy == "RSample",
            sample_second=self.training and self.top2_2nd_expert_sampling,
        )
