#!/usr/bin/env python3
"""build_progress.py LOG [TARGET…]: runs ninja in the current folder and says on stderr
how far it is and how long it will still take; everything ninja prints goes to LOG.

On a terminal one line is kept up to date; elsewhere a line is printed every minute.
When a command fails, its output is shown, and the exit code is ninja's; after Ctrl-C it
is 130.
"""

import os
import re
import subprocess
import sys
import time


INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended


class Costs:
    """Seconds that a command takes: as long as it took here before, else a guess from
    what it compiles. The guesses were measured with g++ 12 on two x86_64 cores; only
    their ratios matter, because the pace of this build corrects them."""

    LINK = 0.5
    PRECOMPILE = 35.0
    CUDA = 25.0
    START = 1.0
    TORCH_START = 4.0  # libtorch's templates, instantiated again in every file
    PER_KILOBYTE = 0.16

    def __init__(self):
        self.before = {}
        try:
            with open(".ninja_log", encoding="utf-8") as log:
                for line in log:
                    fields = line.split("\t")
                    if len(fields) >= 5:
                        self.before[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
        except (OSError, ValueError):
            pass

    def of(self, output, command):
        if output in self.before:
            return self.before[output]
        source = re.search(r" -c (\S+)", command)
        if not source:
            return self.LINK
        if "-x c++-header" in command:
            return self.PRECOMPILE
        if source.group(1).endswith(".cu"):
            return self.CUDA
        start = self.TORCH_START if "torch/include" in command else self.START
        return start + self.PER_KILOBYTE * sum(map(size_of, sources_of(source.group(1)))) / 1024


def size_of(path):
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def sources_of(path):
    """A unity file names the sources that are compiled as one."""
    if "/Unity/" not in path:
        return [path]
    try:
        with open(path, encoding="utf-8") as unity:
            return re.findall(r'#include "([^"]+)"', unity.read())
    except OSError:
        return [path]


def output_of(command):
    compiled = re.search(r" -o (\S+) -c ", command)
    return compiled.group(1) if compiled else None


def pending(targets, costs):
    """What ninja would do: the cost of every output, and the cost of all.

    A build whose own files are out of date says nothing of this in a dry run: they are
    brought up to date first."""
    subprocess.run(["ninja", "build.ninja"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    plan = subprocess.run(["ninja", "-n", "-v", *targets], capture_output=True, text=True, check=False)
    known, total = {}, 0.0
    for line in plan.stdout.splitlines():
        step = re.match(r"\[\d+/\d+\] (.*)", line)
        if step:
            output = output_of(step.group(1))
            cost = costs.of(output, step.group(1))
            total += cost
            if output:
                known[output] = cost
    return known, total


class Line:
    """The line that says how far the build is."""

    EVERY = 60  # seconds between lines that are kept

    def __init__(self):
        self.terminal = sys.stderr.isatty()
        self.started = time.monotonic()
        self.last = self.started

    def show(self, done, count, done_cost, total_cost):
        now = time.monotonic()
        if not self.terminal and now - self.last < self.EVERY:
            return
        self.last = now
        text = f"cairn: [4/4] building {done}/{count}, {self.left(now - self.started, done_cost, total_cost)}"
        if self.terminal:
            sys.stderr.write(f"\r{text}\033[K")
            sys.stderr.flush()
        else:
            print(text, file=sys.stderr, flush=True)

    def left(self, elapsed, done_cost, total_cost):
        cores = os.cpu_count() or 1
        # The guesses count as half a minute of building, then this machine's own pace.
        pace = (elapsed + 30) / (done_cost / cores + 30)
        seconds = pace * max(total_cost - done_cost, 0) / cores
        return f"about {round(seconds / 60)} min left" if seconds >= 90 else f"about {max(round(seconds / 10) * 10, 5)} s left"

    def close(self):
        if self.terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def show_failure(log):
    with open(log, encoding="utf-8", errors="replace") as text:
        lines = text.read().splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("FAILED")), max(len(lines) - 20, 0))
    print("\n".join(lines[first : first + 40]), file=sys.stderr)


def main():
    log, targets = sys.argv[1], sys.argv[2:]
    costs, total = pending(targets, Costs())
    if total == 0.0:
        return 0
    line = Line()
    done_cost = 0.0
    ninja = subprocess.Popen(
        ["ninja", *targets],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "NINJA_STATUS": "[%f/%t] "},
    )
    text = ""
    with open(log, "w", encoding="utf-8") as kept:
        for text in ninja.stdout:
            kept.write(text)
            step = re.match(r"\[(\d+)/(\d+)\] (?:.* )?(\S+)$", text)
            if step:
                done, count = int(step.group(1)), int(step.group(2))
                done_cost += costs.get(step.group(3), Costs.LINK)
                line.show(done, count, done_cost, total)
    line.close()
    code = ninja.wait()
    if code and "interrupted by user" in text:
        return INTERRUPTED
    if code:
        show_failure(log)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
