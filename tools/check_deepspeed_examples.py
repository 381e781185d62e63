#!/usr/bin/env python3
"""Runs scripts that are written for DeepSpeed as they are, with Cairn in its place: those of
DeepSpeedExamples, and the tutorial's program in examples/python/gpt_lite.

    tools/check_deepspeed_examples.py DeepSpeedExamples build/release/python [--peer PYTHON]

The first folder is a checkout of that repository, the second the Python package. The
scripts download data; here they get data of the same shapes that is made on the spot,
by way of the libraries that they ask. Each runs by plain python, `torchrun` and `cairn
launch`, at several stages. With --peer, a Python that has the real DeepSpeed, its losses
stand beside. Needs torchvision, transformers, fire, loguru, pytz, sh and, or it has stand-ins
for them, datasets and tensorboard.

On a machine with GPUs they train there: by plain python, and by `cairn launch` with two ranks, which
share the GPU where there is one; DeepSpeed then has one rank. The second folder may be several, with colons
between: packages `cairn` and `deepspeed`.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))

# Runs a script as __main__, after it has put local data in the place of downloads.
STAND_IN = r'''
import json, os, runpy, sys, types
import numpy as np
import torch

class Pictures(torch.utils.data.Dataset):
    """Ten kinds of pictures, each brighter at another place."""
    def __init__(self, root, train=True, download=False, transform=None):
        self.count, self.transform = (320 if train else 80), transform
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        random = np.random.default_rng(index)
        kind = index % 10
        picture = random.integers(0, 128, (32, 32, 3), dtype=np.uint8)
        picture[3 * kind:3 * kind + 4] += 100
        return self.transform(picture), kind

def words(index):
    random = np.random.default_rng(index)
    return " ".join(f"w{(index * 7 + i * int(random.integers(1, 4))) % 50}" for i in range(24))

try:
    import torch.utils.tensorboard
except ImportError:
    class Summary:
        """Takes figures, and writes none."""
        def __init__(self, *_, **__):
            pass
        def add_scalar(self, *_, **__):
            pass
    sys.modules["torch.utils.tensorboard"] = types.ModuleType("torch.utils.tensorboard")
    sys.modules["torch.utils.tensorboard"].SummaryWriter = Summary

class Records(list):
    """What the scripts use of datasets.Dataset."""
    @classmethod
    def from_dict(cls, columns):
        return cls(dict(zip(columns, values)) for values in zip(*columns.values()))
    def filter(self, keep):
        return Records(record for record in self if keep(record))
    def map(self, change):
        return Records({**record, **change(record)} for record in self)

try:
    import torchvision
    torchvision.datasets.CIFAR10 = Pictures
except ImportError:
    pass
try:
    import transformers
    try:
        import datasets
    except ImportError:
        datasets = sys.modules["datasets"] = types.ModuleType("datasets")
        datasets.Dataset = Records
        datasets.arrow_dataset = datasets
    from tokenizers import Tokenizer, models, pre_tokenizers
    vocabulary = {name: i for i, name in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>"] + [f"w{i}" for i in range(50)])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    def tokenizer(*_, **__):
        return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", cls_token="<s>",
            sep_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>")
    datasets.load_dataset = lambda *_, **__: datasets.Dataset.from_dict({"text": [words(i) for i in range(64)]})
    transformers.AutoTokenizer.from_pretrained = tokenizer
except ImportError:
    pass

# Samples come in one order and random numbers from one place, whichever library trains.
loader = torch.utils.data.DataLoader.__init__
def loads_here(self, *arguments, **named):
    named["num_workers"] = 0
    for option in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
        named.pop(option, None)
    loader(self, *arguments, **named)
torch.utils.data.DataLoader.__init__ = loads_here

stage = int(os.environ["EXAMPLE_STAGE"])
if "gptlite" in sys.argv[1] or "train_bert_ds" in sys.argv[1]:
    import deepspeed
    initialize = deepspeed.initialize
    def at_stage(*arguments, **named):
        path = getattr(named.get("args"), "deepspeed_config", None)
        if path:
            named["args"].deepspeed_config = None
            with open(path, encoding="utf-8") as file:
                named["config"] = json.load(file)
        zero = named["config"]["zero_optimization"]
        zero["stage"] = stage
        if stage == 0:  # where DeepSpeed ignores it, Cairn refuses it
            zero.pop("offload_optimizer", None)
        made = initialize(*arguments, **named)
        torch.manual_seed(9 + int(os.environ.get("RANK", "0")))
        return made
    deepspeed.initialize = at_stage
torch.manual_seed(5)
script, sys.argv = sys.argv[1], sys.argv[1:]
sys.path.insert(0, os.path.dirname(script))
runpy.run_path(script, run_name="__main__")
'''


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Runner:
    def __init__(self, examples, package, cairn, peer, gpus):
        self.examples = examples
        self.package = os.pathsep.join(map(os.path.abspath, package.split(os.pathsep)))
        self.gpus = gpus
        self.cairn = cairn
        self.peer = peer
        self.folder = tempfile.mkdtemp(prefix="cairn-examples-")
        self.stand_in = os.path.join(self.folder, "stand_in.py")
        with open(self.stand_in, "w", encoding="utf-8") as file:
            file.write(STAND_IN)

    def command(self, launcher, ranks):
        python = self.peer if launcher == "deepspeed" else sys.executable
        if launcher == "python":
            return [python]
        if launcher in ("torchrun", "deepspeed"):
            return [python, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", str(free_port())]
        sharing = ["--share_gpu"] if 0 < self.gpus < ranks else []
        return [os.path.abspath(self.cairn), "launch", *sharing, "--num_gpus", str(ranks), "--master_port", str(free_port()), "--"]

    def run(self, name, launcher, ranks, stage, arguments):
        """The numbers that a script logs as its loss, in order. Raises RuntimeError."""
        environment = dict(os.environ, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
        environment["EXAMPLE_STAGE"] = str(stage)
        environment.pop("PYTHONPATH", None)
        if launcher != "deepspeed":
            environment["PYTHONPATH"] = self.package
        elif not self.gpus:
            # It compiles functions of a line, for minutes.
            environment.update(DS_ACCELERATOR="cpu", TORCHDYNAMO_DISABLE="1")
        script = os.path.abspath(os.path.join(self.examples, name))
        command = [*self.command(launcher, ranks), self.stand_in, script, *arguments]
        if launcher == "cairn launch":
            command[command.index("--") + 1 : command.index("--") + 1] = [sys.executable]
        done = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=900)
        text = done.stdout + done.stderr
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\nended with {done.returncode}:\n{text[-4000:]}")
        return [float(number) for number in re.findall(r"[Ll]oss: +([0-9.]+)", text)]


def said(runner, script, launcher, ranks, stage, arguments):
    """Runs a script and prints its losses. False where it failed."""
    name = os.path.basename(script)
    folder = os.path.join(runner.folder, f"{name}-{launcher.replace(' ', '-')}-{stage}")
    filled = [word.format(stage=stage, folder=folder) for word in arguments]
    begin = f"{name:24}{launcher:>14}{ranks:>7}{stage:>7}  "
    try:
        losses = runner.run(script, launcher, ranks, stage or 0, filled)
        print(f"{begin}{losses}", flush=True)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"{begin}failed", flush=True)
        print(error, file=sys.stderr, flush=True)
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples")
    parser.add_argument("package")
    parser.add_argument("--peer", help="a Python that has the real DeepSpeed")
    parser.add_argument("--cairn", default=os.path.join(HERE, "..", "cairn"), help="the program")
    parser.add_argument("--only", default="", help="scripts with this in their name")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    options = parser.parse_args()
    gpus = torch.cuda.device_count()
    runner = Runner(options.examples, options.package, options.cairn, options.peer, gpus)
    cifar = "training/cifar/cifar10_deepspeed.py"
    hello = "training/HelloDeepSpeed/train_bert_ds.py"
    plain = "training/HelloDeepSpeed/train_bert.py"
    torchrun = [("torchrun", 2)] if gpus != 1 else []
    peers = [("deepspeed", 1 if gpus == 1 else 2)] if options.peer else []
    launchers = [("python", 1), *torchrun, ("cairn launch", 2), *peers]
    small = ["--num_layers", "2", "--num_heads", "2", "--ff_dim", "64", "--h_dim", "32", "--max_seq_length", "32",
             "--num_iterations", "12", "--log_every", "4", "--checkpoint_every", "6", "--dropout", "0.0"]
    tutorial = os.path.abspath(os.path.join(HERE, "..", "examples", "python", "gpt_lite"))
    scripts = [
        # script, launchers, its arguments
        (cifar, launchers, ["--deepspeed", "--epochs", "1", "--log-interval", "5", "--dtype", "fp32", "--stage", "{stage}"]),
        (os.path.join(tutorial, "gptlite_deepspeed.py"), launchers,
         ["--deepspeed_config", os.path.join(tutorial, "gptlite_config_ds.json")]),
        (hello, launchers, ["--checkpoint_dir", "{folder}", *small]),
    ]
    try:
        print(f"{'script':24}{'by':>14}{'ranks':>7}{'stage':>7}  losses")
        runs = [(plain, "python", 1, "", ["--checkpoint_dir", "{folder}", *small])]
        runs += [(script, launcher, ranks, stage, arguments)
                 for script, some, arguments in scripts for stage in range(4) for launcher, ranks in some]
        runs = [run for run in runs if options.only in os.path.basename(run[0])]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            failed = [not came for came in pool.map(lambda run: said(runner, *run), runs)]
    finally:
        shutil.rmtree(runner.folder, ignore_errors=True)
    return int(any(failed))


if __name__ == "__main__":
    sys.exit(main())
