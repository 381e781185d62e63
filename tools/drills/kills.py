"""Kills: of a rank at any moment, of one in a save, of the launcher."""

import os
import signal
import time

from program import Failed


def kill_a_rank(drill):
    """Ranks are killed at random moments, and the launcher starts the job again."""
    save = drill.training.new_save("kill-rank")
    kills = drill.random.randint(1, 3)
    program = drill.training.start(save, restarts=kills)
    try:
        done = 0
        while done < kills and program.process.poll() is None:
            time.sleep(drill.random.uniform(0.1, 1.2))
            ranks = sorted(program.ranks().items())
            if ranks:
                rank, pid = drill.random.choice(ranks)
                try:
                    os.kill(pid, signal.SIGKILL)
                    done += 1
                except ProcessLookupError:
                    pass
        code, text = program.wait(120)
    finally:
        program.end()
    if code != 0:
        raise Failed(f"ended with {code} after {done} kills:\n{text[-2000:]}")
    drill.training.check(save)
    drill.count("kills", done)


def kill_in_a_save(drill):
    """A rank is killed in a system call of a save, by the shim."""
    save = drill.training.new_save("kill-save")
    at = drill.random.randint(1, 60)
    rank = drill.random.randint(0, 1)
    met = drill.shim_met()
    code, text = drill.training.start(
        save, drill.shim("kill", "any", at, save, rank)).wait(120)
    if met.exists():
        drill.count("kills", 1)
        if code != 137:
            raise Failed(f"ended with {code} instead of 137:\n{text[-2000:]}")
    elif code != 0:
        raise Failed(f"ended with {code} without a fault:\n{text[-2000:]}")
    drill.training.finish(save)


def kill_the_launcher(drill):
    """The launcher is killed: everything ends, and the job can be started again."""
    save = drill.training.new_save("kill-launcher")
    program = drill.training.start(save)
    try:
        time.sleep(drill.random.uniform(0.05, 4))
        os.kill(program.pid, signal.SIGKILL)
        drill.count("kills", 1)
        program.process.wait()
        program.expect_nothing_left()
    finally:
        program.end()
    drill.training.finish(save)
