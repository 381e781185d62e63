"""The layer of experts, as DeepSpeed has it."""

from __future__ import annotations

from typing import Optional

import torch
from torch.nn import functional as F

from .._library import _core
from .experts import Experts
from .gate import TopKGate
from .mesh import mesh_of


def _placed(tokens, slots, count):
    """The tokens in the slots of their experts, [slots, hidden]. A slot to which no token
    goes has zeros. `slots` is [choices, tokens]; the one past the last is for dropped tokens."""
    sources = torch.full((count + 1,), tokens.shape[0], dtype=torch.long, device=tokens.device)
    numbers = torch.arange(tokens.shape[0], device=tokens.device).expand_as(slots)
    sources.scatter_(0, slots.reshape(-1), numbers.reshape(-1))
    return torch.cat([tokens, tokens.new_zeros(1, tokens.shape[1])]).index_select(0, sources[:-1])


def _mixed(answers, slots, weights):
    """The sum of the experts' answers to each token, by its weights, [tokens, hidden]."""
    answers = torch.cat([answers, answers.new_zeros(1, answers.shape[1])])
    chosen = answers.index_select(0, slots.reshape(-1)).view(*slots.shape, -1)
    return (chosen * weights.unsqueeze(-1)).sum(0).to(answers.dtype)


class MOELayer(torch.nn.Module):
    """Sends tokens to the experts that the gate chose, on whichever ranks they are, and
    adds up the answers."""

    def __init__(self, gate: TopKGate, experts: Experts) -> None:
        super().__init__()
        self.gate = gate
        self.experts = experts
        self.l_aux: Optional[torch.Tensor] = None
        self.exp_counts: Optional[torch.Tensor] = None

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """[…, hidden] to the same shape."""
        mesh = mesh_of(self.experts.ranks)
        tokens = hidden_states.reshape(-1, hidden_states.shape[-1])
        capacity, slots, weights, counts, balance_loss = self.gate(tokens, mesh)
        self.l_aux, self.exp_counts = balance_loss, counts
        width = tokens.shape[-1]
        count = self.experts.count
        given = _placed(tokens, slots, count * capacity).view(count, capacity, width)
        if mesh is not None:
            given = _core.exchange(given, mesh)
        # An expert sees [ranks that send, 1, slots, hidden], as in DeepSpeed.
        answers = self.experts(given.reshape(self.experts.ranks, -1, capacity, width)).reshape(count, capacity, width)
        if mesh is not None:
            answers = _core.exchange(answers.contiguous(), mesh)
        return _mixed(answers.reshape(-1, width), slots, weights).view_as(hidden_states)


class MoE(torch.nn.Module):
    """A mixture of `num_experts` copies of `expert`, of which each token passes `k`.

        layer = cairn.moe.layer.MoE(hidden_size=512, expert=mlp, num_experts=8, ep_size=2, k=2)
        output, l_aux, exp_counts = layer(x)

    Add `l_aux` to the loss with a coefficient: it is least where all experts get the same
    number of tokens. `exp_counts` are the tokens that chose each expert.

    `ep_size` neighbouring ranks divide the experts; each has `num_experts / ep_size` of
    them. In evaluation nothing is drawn at random."""

    def __init__(
        self,
        hidden_size: int,
        expert: torch.nn.Module,
        num_experts: int = 1,
        ep_size: int = 1,
        k: int = 1,
        capacity_factor: float = 1.0,
        eval_capacity_factor: float = 1.0,
        min_capacity: int = 4,
        use_residual: bool = False,
        noisy_gate_policy: Optional[str] = None,
        drop_tokens: bool = True,
        use_rts: bool = True,
        use_tutel: bool = False,
        enable_expert_tensor_parallelism: bool = False,
        top2_2nd_expert_sampling: bool = True,
    ) -> None:
        super().__init__()
        for name, wanted, why in (
            ("use_tutel", use_tutel, "Tutel is another library for what this layer does itself"),
            (
                "enable_expert_tensor_parallelism",
                enable_expert_tensor_parallelism,
                "an expert of Python's is a module that is called as it is",
            ),
        ):
            if wanted:
                raise _core.UsageError(f"moe.layer.MoE: {name} is not built: {why}; leave it out")
        self.use_residual = use_residual
        self.num_experts = num_experts
        self.ep_size = ep_size
        experts = Experts(expert, num_experts, ep_size)
        self.num_local_experts = len(experts.deepspeed_experts)
        self.expert_group_name = experts.group_name
        self.deepspeed_moe = MOELayer(
            TopKGate(
                hidden_size,
                num_experts,
                k,
                capacity_factor,
                eval_capacity_factor,
                min_capacity,
                noisy_gate_policy,
                drop_tokens,
                use_rts,
                top2_2nd_expert_sampling,
            ),
            experts,
        )
        if use_residual:
            self.mlp = expert
            self.coefficient = torch.nn.Linear(hidden_size, 2)

    def forward(
        self, hidden_states: torch.Tensor, used_token: None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The output, the balance loss, and the number of tokens that chose each expert."""
        if used_token is not None:
            raise _core.UsageError("moe.layer.MoE: used_token is not built; every token is routed")
        output = self.deepspeed_moe(hidden_states)
        if self.use_residual:
            beside = self.mlp(hidden_states)
            beside = beside[0] if isinstance(beside, tuple) else beside
            shares = F.softmax(self.coefficient(hidden_states), dim=-1)
            output = output * shares[..., :1] + beside * shares[..., 1:]
        return output, self.deepspeed_moe.l_aux, self.deepspeed_moe.exp_counts


__all__ = ["MoE", "MOELayer", "TopKGate"]
