"""Programs that a drill runs: bounded in time, and found again by a mark."""

import os
import pathlib
import signal
import subprocess
import time
import uuid


class Failed(Exception):
    """Something that a drill did not expect."""


class Program:
    """A running program and everything that it has started."""

    def __init__(self, words, environment=None, output=subprocess.PIPE):
        self.mark = uuid.uuid4().hex
        self.started = time.monotonic()
        variables = dict(os.environ, CUDA_VISIBLE_DEVICES="", CAIRN_DRILL=self.mark)
        variables.update(environment or {})
        self.process = subprocess.Popen(
            [str(word) for word in words], env=variables, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def pid(self):
        return self.process.pid

    def living(self):
        """The processes with the mark in their environment, without zombies."""
        wanted = f"CAIRN_DRILL={self.mark}".encode()
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                    if state not in "ZX":
                        found.append(int(folder.name))
            except OSError:
                pass  # it has ended
        return found

    def ranks(self):
        """The processes that are ranks, by their number."""
        found = {}
        for pid in self.living():
            try:
                folder = pathlib.Path(f"/proc/{pid}")
                variables = dict(
                    entry.split(b"=", 1) for entry in (folder / "environ").read_bytes().split(b"\0")
                    if b"=" in entry)
                if (b"RANK" in variables and parent_of(pid) == self.pid
                        and (folder / "comm").read_text().strip() != "cairn-sentinel"):
                    found[int(variables[b"RANK"])] = pid
            except OSError:
                pass
        return found

    def wait(self, seconds):
        """The exit code and the output. Ends everything when the time is over."""
        try:
            output, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise Failed(f"still running after {seconds} s") from None
        text = (output or b"").decode(errors="backslashreplace")
        return self.process.returncode, text

    def expect_nothing_left(self, seconds=10):
        end = time.monotonic() + seconds
        while left := self.living():
            if time.monotonic() > end:
                self.end()
                raise Failed(f"processes {left} are left behind")
            time.sleep(0.02)

    def end(self):
        """Kills everything that this program has started."""
        for pid in self.living():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def run(words, seconds=120, environment=None, code=0):
    """Runs a program to its end and returns its output."""
    program = Program(words, environment)
    got, text = program.wait(seconds)
    if code is not None and got != code:
        raise Failed(f"{' '.join(map(str, words[1:3]))} ended with {got}:\n{text[-2000:]}")
    return text


def no_crash(code, text):
    """Fails when a program ended by a signal or by an error that nobody foresaw."""
    if code < 0 or code in (132, 134, 135, 136, 139):
        raise Failed(f"ended by a signal ({code}):\n{text[-2000:]}")
    if "internal error" in text or "terminate called" in text:
        raise Failed(f"an error that nobody foresaw:\n{text[-2000:]}")
