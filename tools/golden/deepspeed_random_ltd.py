#!/usr/bin/env python3
"""Writes the numbers of tokens that DeepSpeed's RandomLTDScheduler gives.

    python tools/golden/deepspeed_random_ltd.py > tests/golden/schedules/deepspeed_random_ltd.json

Run by a Python with DeepSpeed 0.19.6. One case a line: `schedule` is the
section random_ltd_schedule, `kept` has [first step, tokens] wherever the number
changes, as a layer sees it when the engine has made 0 to `steps` - 1 updates
before. `layer_tokens` are those that DeepSpeed counts meanwhile for batches of 2
in 24 layers, 22 of which drop tokens.
"""
import json
import os

# DeepSpeed speaks on stdout while it is imported.
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

from deepspeed.runtime.data_pipeline.data_routing.scheduler import RandomLTDScheduler  # noqa: E402


def schedules():
    for low, high, total, step in [(128, 2048, 20000, 16), (128, 2048, 200, 16), (8, 1024, 500, 8), (64, 2048, 300, 64),
                                   (80, 2048, 7, 8), (1, 100, 50, 1), (5, 100, 30, 3), (64, 64, 10, 8), (60, 60, 10, 8),
                                   (16, 100, 40, 8), (100, 512, 1, 8), (128, 1000, 1000, 24), (30, 2048, 123, 10)]:
        yield {"min_value": low, "max_value": high, "schedule_type": "fixed_linear",
               "schedule_config": {"require_steps": total, "seq_per_step": step}}


def kept(scheduler, steps):
    changes = []
    for step in range(steps):
        scheduler.update_seq(step)
        tokens = scheduler.get_current_seq()
        if not changes or changes[-1][1] != tokens:
            changes.append([step, tokens])
    return changes


cases = []
for schedule in schedules():
    scheduler = RandomLTDScheduler({
        "total_layer_num": 24, "random_ltd_layer_num": 22, "random_ltd_schedule": schedule, "global_batch_size": 2,
        "layer_token_lr_schedule": {"enabled": False}})
    total = schedule["schedule_config"]["require_steps"]
    steps = total + total // 2 + 20
    changes = kept(scheduler, steps)
    cases.append({"schedule": schedule, "steps": steps, "kept": changes,
                  "layer_tokens": scheduler.state["consumed_layer_tokens"]})
print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]", file=out)
