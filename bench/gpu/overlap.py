#!/usr/bin/env python3
"""overlap.py TRACE [TRACE …]

Says how much of the time of NCCL's kernels other kernels of the same rank ran, as a table in Markdown.
Each TRACE is a file that `cairn pretrain … --profile --profile-step-start N --profile-step-end M` has
written for one rank, or that file compressed with gzip. The columns:

- communication: time in which at least one kernel of NCCL ran;
- beside kernels: the part of it in which other kernels ran as well;
- kernels alone: time in which other kernels ran and none of NCCL's;
- idle: time in which nothing ran, between the first event and the last;
- two at once: time in which kernels of two communicators ran.

A row for each kind of NCCL's kernels follows, with its own part beside other kernels.
"""

import argparse
import collections
import pathlib
import re

from components import events_of

NCCL = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")


def union(intervals):
    """The time that the intervals cover, as intervals that do not touch each other."""
    covered = []
    for begin, end in sorted(intervals):
        if covered and begin <= covered[-1][1]:
            covered[-1][1] = max(covered[-1][1], end)
        else:
            covered.append([begin, end])
    return covered


def length(intervals):
    return sum(end - begin for begin, end in intervals)


def common(one, other):
    """The time that two results of union() have in common, as such a result."""
    shared = []
    i = j = 0
    while i < len(one) and j < len(other):
        begin = max(one[i][0], other[j][0])
        end = min(one[i][1], other[j][1])
        if begin < end:
            shared.append([begin, end])
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return shared


def twice(intervals):
    """The time that at least two of the intervals cover."""
    changes = sorted([(begin, 1) for begin, _ in intervals] + [(end, -1) for _, end in intervals])
    running = total = before = 0
    for at, change in changes:
        total += (at - before) if running > 1 else 0
        running += change
        before = at
    return total


def kinds_of(events):
    """Intervals by the kind of NCCL's kernel; None for all other kernels."""
    kinds = collections.defaultdict(list)
    for begin, duration, name in events:
        found = NCCL.search(name)
        kinds[found.group(1) if found else None].append((begin, begin + duration))
    return kinds


def milliseconds(microseconds):
    return f"{microseconds / 1000:.2f} ms"


def percent(part, whole):
    return f"{100 * part / whole:.0f}%" if whole else "-"


def rows_of(path):
    kinds = kinds_of(events_of(path))
    others = union(kinds.pop(None, []))
    calls = [interval for intervals in kinds.values() for interval in intervals]
    sending = union(calls)
    beside = length(common(sending, others))
    everything = union(sending + others)
    idle = everything[-1][1] - everything[0][0] - length(everything) if everything else 0
    yield [path.name, milliseconds(length(sending)),
           f"{milliseconds(beside)} ({percent(beside, length(sending))})",
           milliseconds(length(others) - beside), milliseconds(idle), milliseconds(twice(calls))]
    for kind, intervals in sorted(kinds.items()):
        covered = union(intervals)
        part = length(common(covered, others))
        yield [f"… {kind}, {len(intervals)} calls", milliseconds(length(covered)),
               f"{milliseconds(part)} ({percent(part, length(covered))})", "", "", ""]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=pathlib.Path, nargs="+", metavar="TRACE")
    print("| trace | communication | beside kernels | kernels alone | idle | two at once |")
    print("|---|---:|---:|---:|---:|---:|")
    for path in parser.parse_args().traces:
        for row in rows_of(path):
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
