"""LAMB, which only an engine runs."""

from ._for_engine import ForEngine


class FusedLamb(ForEngine):
    """Adam with a trust ratio for each parameter."""

    def __init__(
        self,
        params,
        lr=1e-3,
        bias_correction=True,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        max_coeff=10.0,
        min_coeff=0.01,
    ):
        super().__init__(
            params,
            "Lamb",
            {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay},
            {"bias_correction": bool(bias_correction), "max_coeff": max_coeff, "min_coeff": min_coeff},
        )


__all__ = ["FusedLamb"]
