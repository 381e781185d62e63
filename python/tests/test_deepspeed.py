"""Scripts that import deepspeed, with the alias."""

import argparse
import unittest

import torch


class Alias(unittest.TestCase):
    def test_names_are_where_scripts_look_for_them(self):
        import deepspeed
        from deepspeed.accelerator import get_accelerator
        from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
        from deepspeed.runtime.lr_schedules import WarmupLR
        from deepspeed.utils import RepeatingLoader, log_dist, logger
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

        for name in (DeepSpeedCPUAdam, FusedAdam, WarmupLR, RepeatingLoader, log_dist, get_fp32_state_dict_from_zero_checkpoint):
            self.assertTrue(callable(name))
        self.assertTrue(logger.name)
        self.assertIn(get_accelerator().device_name(), ("cpu", "cuda"))
        self.assertTrue(deepspeed.zero.Init and deepspeed.zero.GatheredParameters)
        self.assertTrue(deepspeed.checkpointing.checkpoint and deepspeed.comm.get_rank)

    def test_a_script_by_the_book(self):
        import deepspeed

        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, default=-1)
        parser = deepspeed.add_config_arguments(parser)
        args = parser.parse_args(["--deepspeed"])
        net = torch.nn.Linear(4, 2)
        data = [(torch.full((4,), float(i)), i % 2) for i in range(8)]
        engine, optimizer, loader, schedule = deepspeed.initialize(
            args=args,
            model=net,
            model_parameters=[p for p in net.parameters() if p.requires_grad],
            training_data=data,
            config={
                "train_batch_size": 4,
                "optimizer": {"type": "Adam", "params": {"lr": 0.01}},
                "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 3}},
            },
        )
        self.assertEqual(len(loader), 2)
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(engine(x), y)
            engine.backward(loss)
            engine.step()
        self.assertEqual(engine.global_steps, 2)
        self.assertIsInstance(engine, deepspeed.DeepSpeedEngine)
        self.assertEqual(optimizer.param_groups[0]["lr"], engine.get_lr()[0])
        self.assertIsNotNone(schedule)


if __name__ == "__main__":
    unittest.main()
