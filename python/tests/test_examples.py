"""The examples of docs/python.md, as a user would run them."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
EXAMPLES = os.path.join(ROOT, "examples", "python")


class Examples(unittest.TestCase):
    def run_command(self, *command):
        # The launcher starts "python3": here that is the Python of the test.
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                command,
                cwd=folder,
                env=dict(os.environ, OMP_NUM_THREADS="1", PATH=path),
                capture_output=True,
                text=True,
                timeout=180,
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def losses(self, *command):
        return [float(loss) for loss in re.findall(r"step +\d+ +loss ([0-9.]+)", self.run_command(*command))]

    def test_train_by_every_launcher(self):
        script = os.path.join(EXAMPLES, "train.py")
        alone = self.losses(sys.executable, script)
        self.assertEqual(len(alone), 4)
        self.assertLess(alone[-1], alone[0] / 2)
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        spread = self.losses(*torchrun, script, "--stage", "3")
        self.assertLess(spread[-1], spread[0] / 2)
        cairn = os.environ.get("CAIRN_PROGRAM")
        if cairn:
            self.assertEqual(self.losses(cairn, "launch", "--num_gpus", "2", script, "--stage", "3"), spread)

    def test_a_program_for_deepspeed_as_it_is(self):
        folder = os.path.join(EXAMPLES, "gpt_lite")
        script = os.path.join(folder, "gptlite_deepspeed.py")
        config = os.path.join(folder, "gptlite_config_ds.json")
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        for start in ([sys.executable], torchrun):
            output = self.run_command(*start, script, "--deepspeed_config", config)
            losses = [float(loss) for loss in re.findall(r"Epoch: \d+, Step: \d+, Loss: ([0-9.]+)", output)]
            self.assertEqual(len(losses), 20, output)
            self.assertLess(losses[-1], losses[0] / 4)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
    def test_a_model_of_hugging_face(self):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        losses = self.losses(*torchrun, os.path.join(EXAMPLES, "llama.py"))
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], 0.8 * losses[0])

    def test_the_notebook(self):
        # Cell by cell, as a notebook runs them: no kernel has to be installed for it.
        with open(os.path.join(EXAMPLES, "notebook.ipynb"), encoding="utf-8") as file:
            notebook = json.load(file)
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertGreater(len(cells), 2)
        output = self.run_command(sys.executable, "-c", "\n".join(cells))
        self.assertIn("loss", output)


if __name__ == "__main__":
    unittest.main()
