"""Layers that a program divides over ranks itself, with DeepSpeed's `mpu`."""

import os
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import ranks  # noqa: E402

import cairn  # noqa: E402

WIDTH, WIDE, TENSOR = 6, 8, 2


class Mpu:
    """Groups of neighbours that divide layers, and the groups across them."""

    def __init__(self, *above_1):
        for kind in above_1:
            setattr(self, f"get_{kind}_parallel_world_size", lambda: 2)
        world, rank = dist.get_world_size(), dist.get_rank()
        for first in range(0, world, TENSOR):
            group = dist.new_group(range(first, first + TENSOR))
            if first <= rank < first + TENSOR:
                self.tensor = group
        for first in range(TENSOR):
            group = dist.new_group(range(first, world, TENSOR))
            if rank % TENSOR == first:
                self.data = group

    def get_model_parallel_group(self):
        return self.tensor

    def get_data_parallel_group(self):
        return self.data

    def get_sequence_parallel_world_size(self):
        return 1

    def get_pipe_parallel_world_size(self):
        return 1


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class Mlp(torch.nn.Module):
    """A norm and an MLP, of which each rank of a group has some columns."""

    def __init__(self, mpu=None, say_where=True):
        super().__init__()
        torch.manual_seed(5)
        up, down = torch.nn.Linear(WIDTH, WIDE), torch.nn.Linear(WIDE, WIDTH, bias=False)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.mpu = mpu
        parts = TENSOR if mpu else 1
        place = dist.get_rank() % TENSOR if mpu else 0
        for name, whole, dim in (("up", up.weight, 0), ("up_bias", up.bias, 0), ("down", down.weight, 1)):
            part = torch.nn.Parameter(whole.detach().chunk(parts, dim)[place].clone())
            if mpu:
                part.model_parallel = True
                if say_where:
                    part.partition_dim = dim
            self.register_parameter(name, part)

    def forward(self, x):
        x = self.norm(x)
        x = _Copy.apply(x, self.mpu.tensor) if self.mpu else x
        y = torch.nn.functional.linear(torch.tanh(torch.nn.functional.linear(x, self.up, self.up_bias)), self.down)
        y = _Sum.apply(y, self.mpu.tensor) if self.mpu else y
        return y.square().mean()


def batch(step, number):
    return torch.sin(torch.arange(4 * WIDTH).view(4, WIDTH) * (0.3 + 0.1 * step) + number)


def plain_losses(copies, steps=4):
    net = Mlp()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02, weight_decay=0.1)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = sum(net(batch(step, number)) for number in range(copies)) / copies
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.05)
        optimizer.step()
        losses.append(loss.item())
    return losses


# What the ranks do. Each is called in processes of its own.


def train(stages, folder):
    cairn.init_distributed()
    mpu = Mpu()
    copies = dist.get_world_size(mpu.data)
    all_losses = []
    for stage in stages:
        settings = {
            "train_batch_size": 4 * copies,
            "train_micro_batch_size_per_gpu": 4,
            "gradient_clipping": 0.05,
            "optimizer": {"type": "AdamW", "params": {"lr": 0.02, "weight_decay": 0.1}},
            "zero_optimization": {"stage": stage},
        }
        engine, _, loader, _ = cairn.initialize(Mlp(mpu), settings, mpu=mpu, training_data=[torch.zeros(1)] * 8 * copies)
        assert len(loader) == 2, len(loader)
        losses = []
        for step in range(4):
            loss = engine(batch(step, dist.get_rank(mpu.data)))
            engine.backward(loss)
            engine.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean, group=mpu.data)
            losses.append(mean.item() / copies)
        all_losses.append(losses)
    engine.save_checkpoint(folder)
    try:
        engine.module_state_dict()
        refused = ""
    except cairn.UsageError as error:
        refused = str(error)
    return [all_losses, refused]


def refusals():
    cairn.init_distributed()
    settings = {"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "AdamW"}}
    messages = []
    marked = [Mlp(), Mlp()]
    marked[0].up.allreduce = False
    marked[1].norm.weight.sequence_parallel = True
    for mpu, net in (
        (Mpu("pipe"), Mlp()),
        (Mpu(), Mlp(Mpu(), say_where=False)),
        (object(), Mlp()),
        (Mpu("context"), Mlp()),
        (Mpu("expert_model"), Mlp()),
        (Mpu(), marked[0]),
        (Mpu(), marked[1]),
    ):
        try:
            cairn.initialize(net, settings, mpu=mpu)
            messages.append("")
        except cairn.UsageError as error:
            messages.append(str(error))
    return messages


class ModelParallel(unittest.TestCase):
    def test_trains_as_whole_layers_do(self):
        for count, copies in ((2, 1), (4, 2)):
            wanted = plain_losses(copies)
            with tempfile.TemporaryDirectory() as folder:
                for all_losses, refused in ranks.run(train, count, [0, 1, 2, 3], folder):
                    self.assertIn("ranks divide the layers", refused)
                    for stage, losses in enumerate(all_losses):
                        for got, want in zip(losses, wanted):
                            self.assertAlmostEqual(got, want, 5, (count, stage))
                weights = cairn.load(folder)
                self.assertEqual(weights["up"].shape, (WIDE, WIDTH))
                self.assertEqual(weights["down"].shape, (WIDTH, WIDE))
                self.assertEqual(weights["norm.weight"].shape, (WIDTH,))

    def test_what_it_cannot_tell(self):
        for pipeline, nowhere, no_groups, context, experts, of_an_expert, of_a_sequence in ranks.run(refusals, 2):
            self.assertIn("PipelineModule", pipeline)
            self.assertIn("partition_dim", nowhere)
            self.assertIn("get_tensor_model_parallel_group", no_groups)
            self.assertIn("get_context_parallel_world_size", context)
            self.assertIn("get_expert_model_parallel_world_size", experts)
            self.assertIn("up is marked with allreduce = False", of_an_expert)
            self.assertIn("norm.weight is marked with sequence_parallel = True", of_a_sequence)


if __name__ == "__main__":
    unittest.main()
