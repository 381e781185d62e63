#!/usr/bin/env python3
"""Writes the sequence lengths that DeepSpeed's CurriculumScheduler gives.

    python tools/golden/deepspeed_curriculum.py > tests/golden/schedules/deepspeed_curriculum.json

Run by a Python with DeepSpeed 0.19.6. One case a line: `config` is the section
curriculum_learning, `lengths` has [first step, length] wherever the length
changes, as the engine sees it when it asks at every step from 1 to `steps`.
"""
import json
import os
import sys

# DeepSpeed speaks on stdout while it is imported.
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

from deepspeed.runtime.data_pipeline.curriculum_scheduler import CurriculumScheduler  # noqa: E402


def section(low, high, kind, **schedule):
    return {"enabled": True, "curriculum_type": "seqlen", "min_difficulty": low, "max_difficulty": high,
            "schedule_type": kind, "schedule_config": schedule}


def configs():
    for low, high, total, step in [(64, 1024, 15000, 8), (8, 1024, 500, 8), (64, 2048, 300, 64), (80, 2048, 7, 8),
                                   (1, 100, 50, 1), (5, 100, 30, 3), (64, 64, 10, 8), (60, 60, 10, 8), (16, 100, 40, 8),
                                   (100, 512, 1, 8), (128, 1000, 1000, 24), (30, 2048, 123, 10)]:
        yield section(low, high, "fixed_linear", total_curriculum_step=total, difficulty_step=step)
        for degree in (1, 2, 3, 5):
            yield section(low, high, "fixed_root", total_curriculum_step=total, difficulty_step=step, root_degree=degree)
    for low, high, lengths, steps in [(1, 3, [1, 2, 3], [5, 10]), (64, 1024, [64, 128, 1024], [100, 1000]),
                                      (64, 512, [64, 512], [1]), (64, 512, [64, 512, 128, 256], [3, 6, 9]),
                                      (64, 512, [128, 64, 512], [4, 8]), (64, 64, [32, 64], [5]),
                                      (32, 512, [64, 1024], [7])]:
        yield section(low, high, "fixed_discrete", difficulty=lengths, max_step=steps)


def lengths(config, steps):
    scheduler = CurriculumScheduler(json.loads(json.dumps(config)))
    changes = []
    for step in range(1, steps + 1):
        length = scheduler.update_difficulty(step)
        if not changes or changes[-1][1] != length:
            changes.append([step, length])
    return changes


cases = []
for config in configs():
    schedule = config["schedule_config"]
    last = schedule.get("total_curriculum_step") or schedule["max_step"][-1]
    steps = last + last // 2 + 20
    changes = lengths(config, steps)
    if changes[0][1] > 0:  # an empty sequence is refused
        cases.append({"config": config, "steps": steps, "lengths": changes})
print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]", file=out)
