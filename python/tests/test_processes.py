"""Processes around an engine: Ctrl-C, and the workers of data loaders."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import nets  # noqa: E402
import ranks  # noqa: E402

import cairn  # noqa: E402

# Trains until it is stopped. A file says that it has begun, and has the process's number.
ENDLESS = """
import os, sys
sys.path.insert(0, sys.argv[1])
import cairn, nets
engine, *_ = cairn.initialize(nets.fresh(), nets.config(3))
step = 0
while True:
    engine.backward(engine(*nets.batch(step, cairn.comm.get_rank())))
    engine.step()
    step += 1
    if step == 3:
        path = os.path.join(sys.argv[2], str(cairn.comm.get_rank()))
        with open(path + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(path + ".new", path)
"""


class Rows(torch.utils.data.Dataset):
    """Samples that take tensors to make, in a worker of a loader's."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        tokens = (torch.arange(nets.LENGTH + 1) * (index + 3)).remainder(nets.WORDS)
        return tokens[:-1].clone(), torch.softmax(tokens.float(), 0).argmax() * 0 + tokens[1:]


def train_with_workers(stage):
    """Losses with samples that two workers make, and with none. Loops begin workers anew
    while the engine's threads run; the last loop is left with workers at their work."""
    losses = []
    for workers in (0, 2):
        engine, *_ = cairn.initialize(
            nets.fresh(), nets.config(stage, zero_optimization={"stage": stage, "offload_optimizer": {"device": "cpu"}})
        )
        loader = engine.deepspeed_io(Rows(), num_local_io_workers=workers)
        mine = []
        for _ in range(3):
            for x, y in loader:
                loss = engine(x, y)
                engine.backward(loss)
                engine.step()
                mine.append(loss.item())
        losses.append(mine)
    left = iter(loader)
    next(left)
    global kept
    kept = left  # at the end of the interpreter its workers still run
    return losses


def runs(number):
    """True for the number of a process that has not ended."""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Processes(unittest.TestCase):
    def start(self, folder, count):
        """Starts ranks of their own session, as a terminal does."""
        script = os.path.join(folder, "endless.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(ENDLESS)
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        launcher = [os.environ["CAIRN_PROGRAM"], "launch", "--num_gpus", str(count)] if count > 1 else [sys.executable]
        return subprocess.Popen(
            [*launcher, script, HERE, folder],
            env=dict(os.environ, OMP_NUM_THREADS="1", PATH=path),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def test_ctrl_c_ends_training(self):
        for count in (1, 2) if os.environ.get("CAIRN_PROGRAM") else (1,):
            with self.subTest(ranks=count), tempfile.TemporaryDirectory() as folder:
                process = self.start(folder, count)
                try:
                    deadline = time.monotonic() + 120
                    while not all(os.path.exists(os.path.join(folder, str(rank))) for rank in range(count)):
                        self.assertIsNone(process.poll(), process.poll() is not None and process.stdout.read())
                        self.assertLess(time.monotonic(), deadline)
                        time.sleep(0.05)
                    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
                    output, _ = process.communicate(timeout=60)
                    self.assertNotEqual(process.returncode, 0, output)
                    # The launcher gives its ranks some seconds to print what they want.
                    if count == 1:
                        self.assertIn("KeyboardInterrupt", output)
                    for rank in range(count):
                        with open(os.path.join(folder, str(rank)), encoding="utf-8") as file:
                            self.assertFalse(runs(int(file.read())), output)
                finally:
                    try:
                        os.killpg(process.pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                    process.communicate()

    def test_workers_of_loaders(self):
        for stage in (1, 3):
            for alone, with_workers in ranks.run(train_with_workers, 2, stage):
                with self.subTest(stage=stage):
                    self.assertEqual(len(alone), 12)
                    self.assertEqual(with_workers, alone)


if __name__ == "__main__":
    unittest.main()
