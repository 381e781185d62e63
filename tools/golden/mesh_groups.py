#!/usr/bin/env python3
"""Writes tests/golden/mesh/groups.txt: the rank groups Megatron-LM makes.

    tools/golden/mesh_groups.py <Megatron-LM checkout> > tests/golden/mesh/groups.txt

Only the two definitions that do the arithmetic are taken out of
megatron/core/parallel_state.py and run, so neither torch nor a GPU is needed.
"""
import ast
import pathlib
import sys
from typing import Callable, List, Optional  # names the definitions refer to

# (data, pipeline, tensor, expert, context)
SHAPES = [
    (1, 1, 1, 1, 1),
    (4, 1, 1, 1, 1),
    (2, 2, 2, 1, 1),
    (2, 4, 2, 1, 1),
    (2, 2, 2, 2, 1),
    (4, 2, 1, 4, 1),
    (2, 2, 2, 1, 2),
    (3, 2, 2, 2, 2),
    (2, 3, 1, 4, 2),
    (5, 1, 3, 5, 1),
]
DENSE = ["tp", "cp", "dp", "pp", "dp-cp", "tp-pp", "tp-cp", "tp-dp", "tp-dp-cp"]
EXPERT = ["ep", "dp", "tp-ep", "tp-ep-pp"]


def load(checkout):
    source = (pathlib.Path(checkout) / "megatron/core/parallel_state.py").read_text()
    wanted = {"generate_masked_orthogonal_rank_groups", "RankGenerator"}
    body = [node for node in ast.parse(source).body if getattr(node, "name", None) in wanted]
    names = {"List": List, "Optional": Optional, "Callable": Callable}
    exec(compile(ast.Module(body=body, type_ignores=[]), "parallel_state.py", "exec"), names)
    return names["RankGenerator"]


def write(kind, tokens, generator):
    for token in tokens:
        groups = "|".join(",".join(map(str, group)) for group in generator.get_ranks(token))
        print(kind, token, groups)


def main():
    generator = load(sys.argv[1])
    order = "tp-cp-ep-dp-pp"
    for data, pipeline, tensor, expert, context in SHAPES:
        print("shape", data, pipeline, tensor, expert, context)
        dense = generator(tp=tensor, ep=1, dp=data, pp=pipeline, cp=context, order=order)
        write("dense", DENSE, dense)
        expert_data = data * context // expert
        write("expert", EXPERT,
              generator(tp=tensor, ep=expert, dp=expert_data, pp=pipeline, cp=1, order=order))


main()
