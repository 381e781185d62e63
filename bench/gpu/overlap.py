#!/usr/bin/env python3
"""overlap.py TRACE [TRACE …]

Says how much of the time of NCCL's kernels other kernels of the same rank ran, and how far the host was
ahead of the GPU, as two tables in Markdown. Each TRACE is a file that `cairn pretrain … --profile
--profile-step-start N --profile-step-end M` has written for one rank, or that file compressed with gzip.
The columns of the first table:

- communication: time in which at least one kernel of NCCL ran;
- beside kernels: the part of it in which other kernels ran as well;
- kernels alone: time in which other kernels ran and none of NCCL's;
- idle: time in which nothing ran, between the first event and the last;
- two at once: time in which kernels of two communicators ran.

A row for each kind of NCCL's kernels follows, with its own part beside other kernels. Messages from one
rank to another are "send" and "receive" where the trace says which they are, otherwise "SendRecv".

The second table is about the stream with the most kernels' time but NCCL's, the one that computes:

- passes: kernels on it that the host queued right after a message, which is where a pass of a pipeline
  begins;
- ahead at a pass: the time from the host's call to the kernel's begin, the median of all passes and the least;
- ahead: the same median over all kernels of the stream;
- host waited: time in which the host was in a call that waits for the GPU: a synchronization, or a copy
  between the GPU and memory of the host that is not pinned;
- for messages: the part of it in which messages between two ranks ran on the GPU, and no other kernel.

A row for each of these calls follows. A host that is ahead has queued a pass before its message is there.
"""

import argparse
import collections
import pathlib
import re
import statistics
import sys

from gpu_trace import Trace

WAITS = re.compile(r"cu(?:da)?(?:Stream|Event|Device|Ctx)Synchronize|cudaMemcpy$")
HOST_COPY = re.compile(r"Memcpy (?:HtoD|DtoH).*Pageable")
BETWEEN_TWO = ("send", "receive", "SendRecv")


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


def kinds_of(trace):
    """Intervals by the kind of NCCL's kernel; None for all other work on the GPU."""
    kinds = collections.defaultdict(list)
    for work in trace.work:
        kinds[trace.kind(work)].append((work.begin, work.end))
    return kinds


def milliseconds(microseconds):
    return f"{microseconds / 1000:.2f} ms"


def percent(part, whole):
    return f"{100 * part / whole:.0f}%" if whole else "-"


def overlap_rows(name, trace):
    kinds = kinds_of(trace)
    others = union(kinds.pop(None, []))
    calls = [interval for intervals in kinds.values() for interval in intervals]
    sending = union(calls)
    beside = length(common(sending, others))
    everything = union(sending + others)
    idle = everything[-1][1] - everything[0][0] - length(everything) if everything else 0
    yield [name, milliseconds(length(sending)),
           f"{milliseconds(beside)} ({percent(beside, length(sending))})",
           milliseconds(length(others) - beside), milliseconds(idle), milliseconds(twice(calls))]
    for kind, intervals in sorted(kinds.items()):
        covered = union(intervals)
        part = length(common(covered, others))
        yield [f"… {kind}, {len(intervals)} calls", milliseconds(length(covered)),
               f"{milliseconds(part)} ({percent(part, length(covered))})", "", "", ""]


def computing_kernels(trace):
    """The kernels of the stream that computes, each with the host's call, in the order of the calls."""
    time = collections.Counter()
    kernels = collections.defaultdict(list)
    for work in trace.work:
        if work.category == "kernel" and trace.kind(work) is None:
            time[work.stream] += work.end - work.begin
            if trace.launch(work):
                kernels[work.stream].append((trace.launch(work), work))
    computing = kernels[time.most_common(1)[0][0]] if time else []
    return sorted(computing, key=lambda pair: pair[0].begin)


def leads_of(trace):
    """How long each kernel that computes began after the host's call, and the same for the first kernels of
    passes."""
    messages = sorted(trace.launch(work).begin for work in trace.work
                      if trace.kind(work) in BETWEEN_TWO and trace.launch(work))
    leads, passes = [], []
    done = 0
    for call, work in computing_kernels(trace):
        queued = done
        while queued < len(messages) and messages[queued] < call.begin:
            queued += 1
        leads.append(work.begin - call.begin)
        if queued > done:
            passes.append(leads[-1])
        done = queued
    return leads, passes


def waits_of(trace):
    """Intervals in which the host waited for the GPU, by the name of the call."""
    waits = collections.defaultdict(list)
    for call in trace.calls.values():
        if WAITS.match(call.name):
            waits[call.name].append((call.begin, call.end))
    for work in trace.work:
        call = trace.launch(work)
        if call and HOST_COPY.match(work.name) and not WAITS.match(call.name):
            waits[f"{call.name}, {work.name.split()[1]}"].append((call.begin, call.end))
    return waits


def ahead_rows(name, trace):
    leads, passes = leads_of(trace)
    kinds = kinds_of(trace)
    others = union(kinds.pop(None, []))
    messages = union(interval for kind in BETWEEN_TWO for interval in kinds.get(kind, []))
    waits = waits_of(trace)
    waited = union(interval for intervals in waits.values() for interval in intervals)

    def for_messages(intervals):
        during = common(intervals, messages)
        return length(during) - length(common(during, others))

    def median(values):
        return milliseconds(statistics.median(values)) if values else "-"

    least = milliseconds(min(passes)) if passes else "-"
    yield [name, str(len(passes)), f"{median(passes)}, {least}", median(leads), milliseconds(length(waited)),
           milliseconds(for_messages(waited))]
    for call, intervals in sorted(waits.items()):
        covered = union(intervals)
        yield [f"… {call}, {len(intervals)} calls", "", "", "", milliseconds(length(covered)),
               milliseconds(for_messages(covered))]


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=pathlib.Path, nargs="+", metavar="TRACE")
    traces = []
    for path in parser.parse_args().traces:
        try:
            traces.append((path.name, Trace(path)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            sys.exit(f"overlap.py: {path} is no trace that can be read: {error}")
    print("\n".join(table(
        ["trace", "communication", "beside kernels", "kernels alone", "idle", "two at once"],
        (row for name, trace in traces for row in overlap_rows(name, trace)))))
    print()
    print("\n".join(table(
        ["trace", "passes", "ahead at a pass: median, least", "ahead", "host waited", "for messages"],
        (row for name, trace in traces for row in ahead_rows(name, trace)))))


if __name__ == "__main__":
    main()
