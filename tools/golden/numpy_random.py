#!/usr/bin/env python3
"""Writes tests/golden/numpy_random/cases.json from the numpy that is installed.

usage: numpy_random.py OUTPUT_FOLDER
"""
import json
import pathlib
import sys
import zlib

import numpy as np


def exact(values):
    """Floats as hexadecimal text, so that no bit is lost on the way."""
    return [float(value).hex() for value in values]


def whole(values):
    return [int(value) for value in values]


def checksum(values):
    """Of little-endian int64: stands for an order too long to store."""
    return zlib.crc32(np.asarray(values, dtype="<i8").tobytes())


def state(generator):
    _, key, position, has_gauss, cached = generator.get_state()
    return {
        "key": whole(key),
        "position": int(position),
        "has_gauss": bool(has_gauss),
        "cached_gauss": float(cached).hex(),
    }


def randint(seed, low, high, dtype, count=12):
    draws = np.random.RandomState(seed).randint(low, high, count, dtype=dtype)
    return {
        "seed": seed,
        "low": str(low),
        "high": str(high),
        "dtype": dtype,
        "values": [str(value) for value in draws],
    }


def shuffle(seed, count, dtype):
    values = np.arange(count, dtype=dtype)
    generator = np.random.RandomState(seed)
    generator.shuffle(values)
    case = {"seed": seed, "count": count, "dtype": dtype}
    if count <= 100:
        case["values"] = whole(values)
    case["crc32"] = checksum(values)
    case["next"] = float(generator.random_sample()).hex()
    return case


def mixed(seed):
    """Every kind of draw from one generator, one after the other."""
    generator = np.random.RandomState(seed)
    steps = []
    for round_number in range(40):
        order = np.arange(round_number)
        generator.shuffle(order)
        steps.append(
            {
                "sample": float(generator.random_sample()).hex(),
                "normal": float(generator.normal(0.5, 0.02)).hex(),
                "order": whole(order),
                "wide": str(generator.randint(0, 10**12)),
                "with": whole(generator.choice(50, 3)),
                "without": whole(generator.choice(20, 4, replace=False)),
            }
        )
    return {"seed": seed, "steps": steps, "state": state(generator)}


def main():
    seeds = [0, 1, 42, 1234, 2**31, 2**32 - 1]
    arrays = [[0], [1, 2, 3], [2**32 - 1, 0, 7], list(range(700))]
    half = 2**31
    ranges = [
        (0, 1, "int64"), (0, 2, "int64"), (-5, 5, "int64"),
        (0, 1000003, "int64"), (0, 2**32 - 1, "int64"), (0, 2**32, "int64"),
        (0, 2**32 + 1, "int64"), (-(2**63), 2**63, "int64"),
        (7, 2**62, "int64"), (0, 10, "int32"), (-half, half, "int32"),
        (-half, half - 1, "int32"), (100, 30000, "int32"),
    ]
    cases = {
        "numpy": np.__version__,
        "random_sample": [
            {"seed": s, "values": exact(np.random.RandomState(s).random_sample(16))}
            for s in seeds
        ],
        "array_seed": [
            {"seed": a, "values": exact(np.random.RandomState(a).random_sample(8))}
            for a in arrays
        ],
        "long_run": [
            {"seed": 7, "skip": 10000, "value": float(np.random.RandomState(7).random_sample(10001)[-1]).hex()}
        ],
        "randint": [randint(s, *r) for s in (3, 1234) for r in ranges],
        "shuffle": [
            shuffle(s, n, d)
            for s in (0, 1234)
            for n, d in [(0, "int64"), (1, "int64"), (2, "int32"), (10, "int64"),
                         (33, "uint16"), (100, "int32"), (100000, "int64")]
        ],
        "permutation": [
            {"seed": s, "count": n, "values": whole(np.random.RandomState(s).permutation(n))}
            for s in (5, 1234) for n in (0, 1, 2, 17, 64)
        ],
        "standard_normal": [
            {"seed": s, "values": exact(np.random.RandomState(s).standard_normal(15))}
            for s in seeds
        ],
        "mixed": [mixed(99)],
    }
    folder = pathlib.Path(sys.argv[1])
    text = json.dumps(cases, separators=(",", ":")).replace('],"', '],\n"')
    (folder / "cases.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
