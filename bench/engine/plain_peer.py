"""plain_peer.py CASE WHAT: what one process of PyTorch needs for the peers' model, one thread, nothing distributed.

CASE: small or small-comm, a rank's share of the batch in train_two_ranks.py of the peers' harness ($PEERS).
WHAT: step (forward, backward, clip, nanoGPT's AdamW), fused (the same with PyTorch's fused AdamW), or compute
(forward and backward alone)."""
import os
import sys

import torch

sys.path.insert(0, os.environ["PEERS"])
import common as c  # noqa: E402


def main(case, what):
    batch, length = {"small": (4, 256), "small-comm": (1, 32)}[case]
    torch.set_num_threads(1)
    model = c.nanogpt("small")
    batches = c.token_batches("small", batch, seq=length)
    optimizer = model.configure_optimizers(c.WEIGHT_DECAY, c.LEARNING_RATE, c.BETAS, "cpu")
    if what == "fused":
        for group in optimizer.param_groups:
            group["fused"], group["foreach"] = True, False

    def step(i):
        _, loss = model(*batches[i % len(batches)])
        loss.backward()
        if what != "compute":
            torch.nn.utils.clip_grad_norm_(model.parameters(), c.CLIP)
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step(0)
    c.emit_rate(batch * length, "tokens/s", c.timed(step, *c.steps_of("small" if case == "small" else "lite")))


main(*sys.argv[1:])
