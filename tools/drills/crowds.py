"""Many launches at once, and readers that stall."""

import os
import select
import signal
import subprocess
import time

from program import Failed, Program, no_crash


def launches_at_once(drill):
    """Many jobs of two ranks start at the same time, and all end well."""
    programs = [
        Program([drill.training.cairn, "launch", "--num_gpus", 2, "--no_local_rank",
                 "sh", "-c", "echo $MASTER_PORT; sleep 0.3"])
        for _ in range(drill.crowd)]
    ports = set()
    for program in programs:
        code, text = program.wait(120)
        no_crash(code, text)
        if code != 0:
            raise Failed(f"ended with {code}:\n{text[-2000:]}")
        ports.update(line.split()[1] for line in text.splitlines() if line.startswith("[0]"))
        program.expect_nothing_left()
    drill.count("launches", len(programs))
    if len(ports) != len(programs):
        raise Failed(f"{len(programs)} jobs meet at {len(ports)} ports")


def trainings_at_once(drill):
    """Several trainings of two ranks meet at the same time."""
    number = max(2, drill.crowd // 10)
    saves = [drill.training.new_save(f"crowd{i}") for i in range(number)]
    programs = [drill.training.start(save) for save in saves]
    for program, save in zip(programs, saves):
        code, text = program.wait(400)
        if code != 0:
            raise Failed(f"ended with {code}:\n{text[-2000:]}")
        drill.training.check(save)
    drill.count("launches", number)


def read_to_end(fd, seconds):
    """Reads a pipe until its writers are gone."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0] and not os.read(fd, 1 << 16):
            return
    raise Failed(f"it still writes after {seconds} s")


def stalled_reader(drill):
    """Nobody reads the output while ranks write, and then one is killed."""
    reading, writing = os.pipe()
    program = Program(
        [drill.training.cairn, "launch", "--num_gpus", 2, "--no_local_rank", "--grace", "1",
         "sh", "-c", "exec yes"], output=writing)
    os.close(writing)
    try:
        end = time.monotonic() + 60
        while len(ranks := program.ranks()) < 2:
            if time.monotonic() > end:
                raise Failed(f"only ranks {sorted(ranks)} have started")
            time.sleep(0.02)
        time.sleep(drill.random.uniform(0.2, 1))
        victim = ranks[drill.random.randint(0, 1)]
        other = next(pid for pid in ranks.values() if pid != victim)
        os.kill(victim, signal.SIGKILL)
        end = time.monotonic() + 10
        while other in program.living():
            if time.monotonic() > end:
                raise Failed("the other rank is not ended")
            time.sleep(0.02)
        read_to_end(reading, 20)  # and now somebody reads again
        if (code := program.process.wait(10)) != 137:
            raise Failed(f"ended with {code} instead of 137")
        program.expect_nothing_left()
    except subprocess.TimeoutExpired:
        raise Failed("it does not end") from None
    finally:
        os.close(reading)
        program.end()
