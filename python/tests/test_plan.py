"""What a training will need, before it runs."""

import importlib.util
import os
import sys
import unittest

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import nets  # noqa: E402

import cairn  # noqa: E402


def config(stage, **more):
    return nets.config(stage, bf16={"enabled": True}, **more)


class Plans(unittest.TestCase):
    def test_states_by_stage(self):
        with torch.device("meta"):
            net = nets.Gpt()
        elements = sum(parameter.numel() for parameter in net.parameters())
        for stage, wanted in ((0, (2, 4, 12)), (1, (2, 4, 3)), (2, (2, 1, 3)), (3, (0.5, 1, 3))):
            planned = cairn.plan(net, config(stage), ranks=4)
            self.assertEqual((planned["ranks"], planned["zero_stage"], planned["parameters"]), (4, stage, elements))
            memory = planned["memory_bytes_per_rank"]
            for kind, each in zip(("parameters", "gradients", "optimizer"), wanted):
                self.assertAlmostEqual(memory[kind] / elements, each, 2, (stage, kind))
            self.assertEqual(memory["total"], sum(value for kind, value in memory.items() if kind != "total"))

    def test_what_an_engine_holds(self):
        net = nets.fresh()
        planned = cairn.plan(net, nets.config(0), on_gpu=False)["memory_bytes_per_rank"]
        engine = cairn.initialize(net, nets.config(0))[0]
        engine.backward(engine(*nets.batch(0, 0)))
        engine.step()
        held = engine.memory_report()
        for kind in ("parameters", "gradients", "optimizer"):  # buckets are padded
            self.assertAlmostEqual(planned[kind] / held[kind], 1, 1, kind)

    def test_experts_that_ranks_divide(self):
        def net(ep_size):
            return cairn.moe.layer.MoE(32, torch.nn.Linear(32, 32), num_experts=4, ep_size=ep_size)

        elements = sum(parameter.numel() for parameter in net(1).parameters())
        for ep_size, of_rank in ((1, elements), (2, elements - 2 * 33 * 32)):
            planned = cairn.plan(net(ep_size), config(0), ranks=8)
            self.assertEqual(planned["parameters"], elements)
            self.assertEqual(planned["memory_bytes_per_rank"]["optimizer"], 12 * of_rank)
        # Four ranks share the states of each expert, eight those of the gate.
        memory = cairn.plan(net(2), config(1), ranks=8)["memory_bytes_per_rank"]
        self.assertEqual(memory["optimizer"], 12 * (2 * 33 * 32 // 4 + 4 * 32 // 8))
        for ranks in (1, 3):
            with self.assertRaisesRegex(cairn.UsageError, f"{ranks} ranks.*experts 2"):
                cairn.plan(net(2), config(1), ranks=ranks)
        with self.assertRaisesRegex(cairn.UsageError, "4294967296 ranks"):
            cairn.plan(net(1), config(1), ranks=2**32)

    def test_what_a_gpu_leaves(self):
        planned = cairn.plan(nets.fresh(), config(3), ranks=8, cluster="dgx-h100")
        self.assertIn("H100", planned["gpu"])
        self.assertGreater(planned["gpu_memory_bytes"], 70e9)
        self.assertLess(planned["left_for_activations"], planned["gpu_memory_bytes"])

    def test_what_it_does_not_know(self):
        net = nets.fresh()
        with self.assertRaisesRegex(cairn.UsageError, "does not know how long a Gpt"):
            cairn.plan(net, config(3), cluster="dgx-h100", sequence=8)
        with self.assertRaisesRegex(cairn.UsageError, "give cluster"):
            cairn.plan(net, config(3), sequence=8)
        with self.assertRaisesRegex(cairn.ConfigError, "no-such"):
            cairn.plan(net, config(3), cluster="no-such")
        with self.assertRaisesRegex(cairn.ConfigError, '"stage"'):
            cairn.plan(net, {"train_batch_size": 2, "zero_optimization": {"stge": 1}})

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
    def test_the_time_of_a_model_of_hugging_face(self):
        from transformers import LlamaConfig, LlamaForCausalLM

        with torch.device("meta"):
            net = LlamaForCausalLM(LlamaConfig(num_hidden_layers=16, hidden_size=2048, intermediate_size=5632))
        planned = cairn.plan(net, {**config(2), "train_micro_batch_size_per_gpu": 4}, ranks=8, cluster="dgx-h100", sequence=2048)
        run = planned["run"]
        self.assertAlmostEqual(run["parameters"] / planned["parameters"], 1, 2)
        self.assertTrue(run["fits"], run["lacks"])
        self.assertGreater(run["memory_bytes_per_rank"]["activations"], 0)
        self.assertAlmostEqual(run["iteration_seconds"], sum(run["seconds"].values()), 6)


if __name__ == "__main__":
    unittest.main()
