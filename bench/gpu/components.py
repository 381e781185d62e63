#!/usr/bin/env python3
"""components.py TRACE STEPS [--kernels]

Says where the time of a training step on a GPU goes, as a table in Markdown. TRACE is a file
that `cairn pretrain … --profile --profile-step-start N --profile-step-end M` has written, or
that file compressed with gzip; STEPS is how many steps it has, M - N. With --kernels every
kernel has a row of its own. "Alone" is the time in which nothing of another row ran.
"""

import argparse
import collections
import gzip
import json
import pathlib
import re

COMPONENTS = [  # the first whose pattern is in a kernel's name
    ("products", r"nvjet|gemm|splitKreduce|cutlass"),
    ("attention", r"cudnn|flash|fmha|attention|attend_kernel|(query|key)_gradient_kernel"),
    ("experts, without their products", r"choose|choice|mix_|group_|split_floats"),
    ("queries, keys and values joined or split", r"join_kernel|split_kernel|Rotate"),
    ("loss", r"cross_entropy|sum_scores|gradients_kernel|ScaleElements"),
    ("norms", r"forward_kernel|backward_kernel|layer_norm|GammaBeta"),
    ("factors rounded to fp8", r"fp8_kernel|largest_kernel|transpose_kernel"),
    ("activations", r"Gelu|SwiGlu|for_each_kernel<4, cairn::kernels::cuda::\(anonymous namespace\)::(Forward|Backward)"),
    ("norm of gradients, clipping, AdamW", r"UpdateElements|update_many|square_parts|add_parts|multi_tensor_apply|lpnorm|clip_kernel"),
    ("sums of bias gradients", r"sums_kernel|parts_kernel"),
    ("embeddings", r"table_|gather|radix_sort|compute_grad_weight|sum_and_scatter|embedding|unique_by_key|segment"),
    ("additions", r"CUDAFunctor_add"),
    ("copies between host and GPU", r"Memcpy (HtoD|DtoH)"),
    ("copies and fills", r"copy|Memcpy|Memset|Fill"),
]
OTHER = "other"
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def events_of(path):
    opened = gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    with opened as file:
        events = json.load(file)["traceEvents"]
    return sorted((e["ts"], e["dur"], e["name"]) for e in events if e.get("cat") in ON_GPU)


def component_of(name):
    return next((component for component, pattern in COMPONENTS if re.search(pattern, name)), OTHER)


def busy_time(events):
    """Time in which something runs."""
    busy = end = 0
    for begin, duration, _ in events:
        busy += max(0, begin + duration - max(begin, end))
        end = max(end, begin + duration)
    return busy


def time_alone(events, name_of):
    """By name, the time in which events of that name ran and none of another."""
    changes = sorted(
        change for begin, duration, name in events if duration > 0
        for change in ((begin, 1, name_of(name)), (begin + duration, -1, name_of(name))))
    running, alone, before = collections.Counter(), collections.Counter(), 0
    for at, change, name in changes:
        if len(running) == 1:
            alone[next(iter(running))] += at - before
        running[name] += change
        if not running[name]:
            del running[name]
        before = at
    return alone


def table(events, steps, name_of, least=None):
    """least: the least milliseconds of a step by component, for a column of their own."""
    times = collections.Counter()
    counts = collections.Counter()
    for _, duration, name in events:
        times[name_of(name)] += duration
        counts[name_of(name)] += 1
    alone = time_alone(events, name_of)
    span = max(begin + duration for begin, duration, _ in events) - events[0][0]
    idle = span - busy_time(events)

    def of_step(time):
        return f"{time / steps / 1e3:.2f}"

    rows = [
        (name, of_step(time), of_step(alone[name]), f"{time / span:.1%}", f"{counts[name] / steps:.4}")
        for name, time in times.most_common()]
    rows += [("nothing runs", of_step(idle), "", f"{idle / span:.1%}", ""),
             ("the step", of_step(span), "", "", f"{len(events) / steps:.0f}")]
    columns = ["ms of a step", "alone", "share", "kernels"] + (["least ms"] if least else [])
    yield f"| | {' | '.join(columns)} |"
    yield "|---|" + "---:|" * len(columns)
    for row in rows:
        found = (f"{least[row[0]]:.2f}" if row[0] in least else "",) if least else ()
        yield f"| {' | '.join(row + found)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("steps", type=int)
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    try:
        events = events_of(options.trace)
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"{options.trace} is no trace that can be read: {error}")
    if not events:
        parser.error(f"{options.trace} has no kernels of a GPU")
    name_of = (lambda name: f"`{name[:110]}`") if options.kernels else component_of
    print("\n".join(table(events, options.steps, name_of)))


if __name__ == "__main__":
    main()
