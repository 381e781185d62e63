"""Layers of experts from Python: losses of the real DeepSpeed's, in real processes."""

import json
import os
import sys
import tempfile
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import moe_nets  # noqa: E402
import ranks  # noqa: E402

import cairn  # noqa: E402
from cairn.moe import utils  # noqa: E402
from cairn.moe.layer import MoE  # noqa: E402

with open(os.path.join(HERE, "..", "..", "tests", "golden", "moe", "python_layer.json"), encoding="utf-8") as file:
    DEEPSPEEDS = json.load(file)


def config(stage=0, **changes):
    return {
        **moe_nets.CONFIG,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 20, "reduce_bucket_size": 2000},
        **changes,
    }


# What the ranks do. Each is called in processes of its own.


def train(ep_size):
    """Losses of this rank, by the layer's options."""
    rank = cairn.comm.get_rank()
    losses = {}
    for name in moe_nets.LAYERS:
        net = moe_nets.net(MoE, ep_size, rank, name)
        groups = utils.split_params_into_different_moe_groups_for_optimizer({"params": list(net.parameters()), "name": "all"})
        engine = cairn.initialize(model=net, model_parameters=groups, config=config())[0]
        losses[name] = moe_nets.losses(engine, rank)
        assert net.counts.sum().item() == moe_nets.MICRO * moe_nets.LENGTH * moe_nets.LAYERS[name]["k"], net.counts
    return losses


def mean_losses(engine, steps, first=0):
    """Losses over all ranks: of four micro batches, whatever the number of ranks."""
    losses = []
    for step in range(first, first + steps):
        total = torch.zeros(1, device=engine.device)
        for number in range(engine.gradient_accumulation_steps()):
            loss = engine(*moe_nets.batch(step, cairn.comm.get_rank() * engine.gradient_accumulation_steps() + number))
            engine.backward(loss)
            engine.step()
            total += loss.item() / 4
        cairn.comm.all_reduce(total)
        losses.append(total.item())
    return losses


def made(ep_size, stage, optimizer="AdamW"):
    net = moe_nets.net(MoE, ep_size, cairn.comm.get_rank(), "top2_in_order")
    settings = config(stage, gradient_clipping=0.3, gradient_accumulation_steps=4 // cairn.comm.get_world_size())
    settings["optimizer"] = {"type": optimizer, "params": {"lr": 1e-2}}
    return cairn.initialize(net, settings)[0]


def train_layouts(ep_size, stages, optimizer):
    return [mean_losses(made(ep_size, stage, optimizer), 4) for stage in stages]


def train_born_sliced():
    """Losses at stage 3 of a net that is made as a whole, and of one that is born sliced."""
    losses = []
    for born_sliced in (False, True):
        torch.manual_seed(17)
        settings = config(3, gradient_accumulation_steps=2)
        with cairn.zero.Init(config_dict_or_path=settings, enabled=born_sliced):
            net = moe_nets.Net(MoE, 1, **moe_nets.LAYERS["top2_in_order"])
        losses.append(mean_losses(cairn.initialize(net, settings)[0], 3))
    return losses


def save(folder, ep_size, stage):
    engine = made(ep_size, stage)
    losses = mean_losses(engine, 2)
    engine.save_checkpoint(folder)
    engine.save_16bit_model(os.path.join(folder, "weights"))
    name = "first.deepspeed_moe.experts.deepspeed_experts.3.0.bias"
    return losses + engine.full_parameter(name).tolist()


def resume(folder, ep_size, stage):
    engine = made(ep_size, stage)
    path, _ = engine.load_checkpoint(folder)
    assert path is not None
    return mean_losses(engine, 2, first=2)


class Counting(torch.nn.Linear):
    """An expert that counts its calls."""

    def __init__(self):
        super().__init__(4, 4)
        self.register_buffer("calls", torch.zeros(1))


class TwoNames(torch.nn.Module):
    """A layer of experts that is used in two places."""

    def __init__(self):
        super().__init__()
        self.first = MoE(4, torch.nn.Linear(4, 4), num_experts=4, ep_size=2, k=1)
        self.second = self.first

    def forward(self, x):
        return self.second(self.first(x)[0])[0].square().mean()


def state_of_two_names():
    engine = cairn.initialize(TwoNames(), config(3))[0]
    state = engine.module_state_dict()
    aliased = engine.full_parameter("second.deepspeed_moe.experts.deepspeed_experts.3.weight").tolist()
    return [{name: value.tolist() for name, value in state.items()} if state is not None else None, aliased]


def refusals():
    messages = []
    for arguments in (
        dict(use_tutel=True),
        dict(enable_expert_tensor_parallelism=True),
        dict(num_experts=3, ep_size=2),
        dict(noisy_gate_policy="Gumbel"),
        dict(k=2, noisy_gate_policy="RSample"),
        dict(k=9),
    ):
        try:
            MoE(4, torch.nn.Linear(4, 4), **{"num_experts": 2, **arguments})
            messages.append("")
        except cairn.UsageError as error:
            messages.append(str(error))
    two = torch.nn.Sequential(
        MoE(4, torch.nn.Linear(4, 4), num_experts=2, ep_size=2), cairn.pipe.PipelineModule([torch.nn.Linear(4, 4)], num_stages=1)
    )
    try:
        cairn.initialize(two[1].add_module("beside", two[0]) or two[1], config())
        messages.append("")
    except cairn.UsageError as error:
        messages.append(str(error))
    # The second stage alone has experts; both stages have to raise.
    stages = cairn.pipe.PipelineModule(
        [torch.nn.Linear(4, 4), MoE(4, torch.nn.Linear(4, 4), num_experts=2, ep_size=2)],
        num_stages=2,
        partition_method="uniform",
    )
    for net in (stages, MoE(4, torch.nn.Linear(4, 4), num_experts=4, ep_size=4), MoE(4, Counting(), num_experts=2, ep_size=2)):
        try:
            cairn.initialize(net, config())
            messages.append("")
        except cairn.UsageError as error:
            messages.append(str(error))
    return messages


class Experts(unittest.TestCase):
    def assert_close(self, got, wanted, places=4):
        self.assertEqual(len(got), len(wanted))
        for one, other in zip(got, wanted):
            self.assertAlmostEqual(one, other, places)

    def test_losses_of_deepspeed(self):
        for ep_size in (1, 2):
            of_ranks = ranks.run(train, ep_size, ep_size)
            for name, wanted in DEEPSPEEDS[str(ep_size)].items():
                for rank, losses in enumerate(wanted):
                    with self.subTest(ep_size=ep_size, layer=name, rank=rank):
                        self.assert_close(of_ranks[rank][name], losses)

    def test_every_layout_trains_as_one_process(self):
        for optimizer in ("AdamW", "Lamb"):
            wanted = ranks.run(train_layouts, 1, 1, [0], optimizer)[0][0]
            for count, ep_size in ((2, 2), (4, 2)):
                stages = [0, 1, 2, 3] if optimizer == "AdamW" else [1]
                for stage, losses in zip(stages, ranks.run(train_layouts, count, ep_size, stages, optimizer)[0]):
                    with self.subTest(optimizer=optimizer, ranks=count, stage=stage):
                        self.assert_close(losses, wanted)

    def test_experts_born_sliced(self):
        for whole, sliced in ranks.run(train_born_sliced, 2):
            self.assert_close(sliced, whole)

    def test_checkpoints_load_where_others_divide_the_experts(self):
        wanted = ranks.run(train_layouts, 1, 1, [0], "AdamW")[0][0]
        with tempfile.TemporaryDirectory() as folder:
            biases = {tuple(saved[2:]) for saved in ranks.run(save, 2, folder, 2, 3)}
            self.assertEqual(len(biases), 1)
            self.assert_close(ranks.run(resume, 1, folder, 1, 0)[0], wanted[2:])
            weights = cairn.load(folder)
            whole = torch.load(os.path.join(folder, "weights", "pytorch_model.bin"), weights_only=True)
            self.assertEqual(set(whole), set(weights))
            self.assertEqual(sum(".deepspeed_experts." in name for name in whole), 2 * 4 * 4)
            name = "first.deepspeed_moe.experts.deepspeed_experts.3.0.bias"
            self.assertEqual(tuple(whole[name].tolist()), biases.pop())
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(save, 1, folder, 1, 2)
            self.assert_close(ranks.run(resume, 2, folder, 2, 1)[0], wanted[2:])

    def test_evaluation_draws_nothing(self):
        torch.manual_seed(3)
        layer = MoE(8, torch.nn.Linear(8, 8), num_experts=4, k=1, noisy_gate_policy="Jitter", eval_capacity_factor=0.5).eval()
        x = torch.randn(2, 16, 8)
        first, second = layer(x), layer(x)
        for one, other in zip(first, second):
            self.assertTrue(torch.equal(one, other))

    def test_what_is_not_there(self):
        texts = ("use_tutel", "enable_expert_tensor", "3 experts", "Gumbel", "RSample", "k=9", "PipelineModule")
        texts += ("PipelineModule", "job's 2 ranks", "0.calls is a buffer")
        for rank, messages in enumerate(ranks.run(refusals, 2)):
            self.assertEqual(len(messages), len(texts))
            for text, message in zip(texts, messages):
                text = text.replace("0.calls", f"{rank}.calls")
                self.assertIn(text, message)
        with self.assertRaisesRegex(cairn.UsageError, "used_token"):
            MoE(4, torch.nn.Linear(4, 4))(torch.zeros(1, 4), torch.ones(1))

    def test_a_layer_with_two_names(self):
        (state, aliased), (nothing, same) = ranks.run(state_of_two_names, 2)
        self.assertIsNone(nothing)
        self.assertEqual(aliased, same)
        experts = "deepspeed_moe.experts.deepspeed_experts"
        for layer in ("first", "second"):
            for number in range(4):
                for kind in ("weight", "bias"):
                    self.assertEqual(
                        state[f"{layer}.{experts}.{number}.{kind}"], state[f"first.{experts}.{number}.{kind}"]
                    )
        self.assertEqual(state[f"first.{experts}.3.weight"], aliased)

    def test_experts_may_have_buffers_where_each_rank_has_all(self):
        net = MoE(4, Counting(), num_experts=2)
        self.assertEqual(len(list(net.buffers())), 2)
        cairn.initialize(net, config())

    def test_groups_of_parameters(self):
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), MoE(4, torch.nn.Linear(4, 4), num_experts=2))
        self.assertEqual(utils.has_moe_layers(net), (True, 2))
        groups = utils.configure_moe_param_groups(list(net.parameters()))
        self.assertEqual([len(group["params"]) for group in groups], [3, 4])
        self.assertEqual([utils.is_moe_param_group(group) for group in groups], [False, True])
        self.assertTrue(all(utils.is_moe_param(parameter) for parameter in groups[1]["params"]))


if __name__ == "__main__":
    unittest.main()
