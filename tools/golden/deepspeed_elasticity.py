#!/usr/bin/env python3
"""Writes the batches that DeepSpeed's compute_elastic_config chooses.

    python tools/golden/deepspeed_elasticity.py > tests/golden/ds_config/elasticity.json

Run by a Python with DeepSpeed 0.19.6. One case a line: `elasticity` is the
section, `worlds` has [world size, batch, micro batch, valid sizes] for each
world size that DeepSpeed takes, and [world size] for the others. Valid sizes
are left out where they are those of the world before.
"""
import json
import logging
import os
import random

out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

from deepspeed.elasticity import compute_elastic_config  # noqa: E402
from deepspeed.utils import logger  # noqa: E402

logger.setLevel(logging.ERROR)

WORLDS = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 24, 30, 32, 48, 60, 64, 96, 100, 128]


def sections():
    draw = random.Random(20)
    yield {"max_train_batch_size": 10000, "micro_batch_sizes": [8, 12, 16, 17], "min_gpus": 32, "max_gpus": 1500,
           "version": 0.1}
    yield {"max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6], "version": 0.1}
    for _ in range(60):
        version = draw.choice([0.1, 0.2])
        section = {"max_train_batch_size": draw.choice([4, 32, 100, 512, 1000, 2000, 10000]), "version": version,
                   "micro_batch_sizes": draw.sample([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 32], draw.randint(1, 4))}
        if draw.random() < 0.5:
            section["min_gpus"] = draw.choice([1, 2, 4, 8, 30])
            section["max_gpus"] = section["min_gpus"] * draw.choice([1, 2, 8, 100])
        if draw.random() < 0.5:
            section["prefer_larger_batch"] = draw.choice([True, False])
        if version == 0.2 and draw.random() < 0.7:
            section["num_gpus_per_node"] = draw.choice([1, 2, 4, 8])
            section["model_parallel_size"] = draw.choice([1, 1, 2, 4])
        yield section


def worlds(section):
    rows = []
    before = None
    for world in WORLDS:
        try:
            batch, valid, micro = compute_elastic_config({"elasticity": {"enabled": True, **section}}, "0.19.6", world)
        except Exception:  # of several kinds, some of them by accident
            rows.append([world])
            continue
        if batch < 1:  # an empty batch is refused
            rows.append([world])
            continue
        valid = [int(size) for size in valid]
        rows.append([world, int(batch), int(micro)] + ([] if valid == before else [valid]))
        before = valid
    return rows


print("[\n" + ",\n".join(json.dumps({"elasticity": section, "worlds": worlds(section)}) for section in sections()) + "\n]",
      file=out)
