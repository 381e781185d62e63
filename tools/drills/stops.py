"""Stopped ranks: the job ends by itself, in time, and the rank is named."""

import os
import signal
import time

from program import Failed, no_crash


def stop(drill, ranks):
    save = drill.training.new_save("stop")
    timeout = drill.training.timeout()
    program = drill.training.start(
        save, {"CAIRN_COLLECTIVE_TIMEOUT": str(timeout)}, ranks=ranks, steps=100000)
    try:
        # Some are stopped while they start, some when they train.
        if drill.random.random() < 0.5:
            time.sleep(drill.random.uniform(0, 1))
        else:
            wait_for_steps(program, save)
        victim = drill.random.randrange(ranks)
        end = time.monotonic() + 60
        while len(pids := program.ranks()) < ranks:
            if time.monotonic() > end or program.process.poll() is not None:
                raise Failed(f"only ranks {sorted(pids)} have started")
            time.sleep(0.02)
        os.kill(pids[victim], signal.SIGSTOP)
        stopped = time.monotonic()
        code, text = program.wait(timeout + 10)
        took = time.monotonic() - stopped
        program.expect_nothing_left(5)
    finally:
        program.end()
    no_crash(code, text)
    if code == 0 or f"error: rank {victim} (pid" not in text:
        raise Failed(f"rank {victim} is not blamed (code {code}):\n{text[-2000:]}")
    drill.longest("stop to end", took)


def wait_for_steps(program, save):
    end = time.monotonic() + 120
    while not list(save.glob("*/manifest.json")):
        if time.monotonic() > end or program.process.poll() is not None:
            raise Failed("it does not come to its first save")
        time.sleep(0.02)


def stop_one_of_two(drill):
    """One of two ranks gets SIGSTOP, while it starts or while it trains."""
    stop(drill, 2)


def stop_one_of_four(drill):
    """One of four ranks gets SIGSTOP, while it starts or while it trains."""
    stop(drill, 4)
