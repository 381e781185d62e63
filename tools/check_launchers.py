#!/usr/bin/env python3
"""Starts training as other launchers do, and compares the losses with those of `cairn launch`.

    check_launchers.py                     everything that this machine has
    check_launchers.py slurm mpirun torchrun --cairn PROGRAM
                                           these; ends with 77 where one of them is missing

slurm     A Slurm of its own (Debian's slurm-wlm and munge; no system service, no root) with two nodes on this
          machine and 128 that are only planned with. sbatch --test-only takes the scripts of
          `cairn launch --print-slurm`; one runs on the two nodes; one restarts a job that fails; a plain srun
          starts two ranks.
mpirun    Open MPI's, two ranks (Debian's openmpi-bin).
torchrun  PyTorch's, two ranks.

Every run trains the same small GPT for a few steps with two ranks. The losses must be equal to the last digit.
"""
import argparse
import contextlib
import getpass
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The launcher must be the only one to say which rank a process is.
FOREIGN = ("SLURM", "OMPI", "PMI", "PRTE")
OWN = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
TRAINING = """pretrain gpt --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32
  --max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 8 --train-iters 5 --lr 1e-3 --mock-data
  --vocab-size 100 --eval-iters 0 --log-interval 1""".split()


class Missing(Exception):
    pass


def environment():
    kept = {name: value for name, value in os.environ.items() if name not in OWN and not name.startswith(FOREIGN)}
    # Slurm's and MPI's ranks would each take all cores.
    return {**kept, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def run(words, seconds=120, **more):
    """Returns what the command writes; ends the check if it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=seconds,
                          **{"env": environment(), **more})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def need(*programs):
    for program in programs:
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            raise Missing(f"there is no {program} here")


def losses(log):
    lines = map(json.loads, log.read_text().splitlines())
    found = [line["lm loss"] for line in lines if "lm loss" in line]
    if len(found) != 5:
        sys.exit(f"{log}: {len(found)} losses instead of 5")
    return found


class Check:
    def __init__(self, cairn, work):
        self.cairn, self.work, self.runs = cairn, work, 0
        log = self.new_log()
        run([cairn, "launch", "--num_gpus", "2", *TRAINING, "--log-jsonl", log])
        self.expected = losses(log)

    def new_log(self):
        self.runs += 1
        return self.work / f"losses{self.runs}.jsonl"

    def compare(self, name, log):
        found = losses(log)
        if found != self.expected:
            sys.exit(f"{name}: losses {found}, not {self.expected} as with cairn launch")
        print(f"{name}: the {len(found)} losses of cairn launch")

    def mpirun(self):
        need("mpirun")
        log = self.new_log()
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        run(["mpirun", *root, "--oversubscribe", "-n", "2", self.cairn, *TRAINING, "--log-jsonl", log])
        self.compare("mpirun", log)

    def torchrun(self):
        need("torchrun")
        log = self.new_log()
        run(["torchrun", "--standalone", "--nproc_per_node", "2", "--no-python", self.cairn, *TRAINING,
             "--log-jsonl", log])
        self.compare("torchrun", log)

    def slurm(self):
        need("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo")
        with Slurm(self.work / "slurm") as slurm:
            self.plan_with(slurm)
            self.train_with(slurm)
            self.restart_with(slurm)

    def script(self, flags, program):
        path = self.work / f"job{self.runs}.sh"
        # Read as a file: sbatch takes standard error of a pipe for a part of the script.
        path.write_text(subprocess.run([str(word) for word in (self.cairn, "launch", "--print-slurm", *flags, *program)],
                                       check=True, capture_output=True, text=True, env=environment()).stdout)
        return path

    def plan_with(self, slurm):
        gpt175b = ["--nnodes", "128", "--num_gpus", "8", "--partition", "planned"]
        for name, flags in {
                "128 nodes of 8 GPUs": gpt175b + ["--job-name", "gpt 175b #1", "--time", "2-00:00:00"],
                "with a container": gpt175b + ["--container-image", "registry/cairn:1", "--pvc", "/data:/data",
                                               "--workdir", "/data", "--max-restarts", "3"],
                "one node": ["--nnodes", "1", "--num_gpus", "1", "--partition", "planned", "--time", "90"]}.items():
            said = slurm.run("sbatch", "--test-only", self.script(flags, TRAINING))
            if "to start at" not in said:
                sys.exit(f"sbatch --test-only, {name}: {said}")
            print(f"sbatch --test-only, {name}: {said.split(' in partition')[0].split('using ')[1]}")
        # Slurm looks at what it is asked for: one node more is refused.
        refused = subprocess.run(["sbatch", "--test-only", self.script(["--nnodes", "129", *gpt175b[2:]], TRAINING)],
                                 env=slurm.environment, capture_output=True, text=True, timeout=60)
        if refused.returncode == 0:
            sys.exit("sbatch --test-only takes 129 nodes where there are 128")

    def train_with(self, slurm):
        log = self.new_log()
        slurm.run("srun", "--ntasks", "2", "--mem", "2G", self.cairn, *TRAINING, "--log-jsonl", log)
        self.compare("srun, two tasks", log)
        log = self.new_log()
        slurm.run("srun", "--nodes", "2", "--ntasks-per-node", "1", "--mem", "2G", self.cairn, *TRAINING,
                  "--log-jsonl", log)
        self.compare("srun, two nodes", log)
        log = self.new_log()
        flags = ["--nnodes", "2", "--num_gpus", "1", "--cpus", "1", "--memory", "2G", "--time", "5",
                 "--job-name", "two nodes", "--workdir", self.work]
        slurm.submit(self.script(flags, [*TRAINING, "--log-jsonl", log]))
        self.compare("sbatch, two nodes", log)

    def restart_with(self, slurm):
        started = self.work / "started"
        (self.work / "fails_once").write_text(
            f'#!/bin/bash\necho "start $CAIRN_RESTART_COUNT of rank $RANK" >> {started}\n'
            '[[ $RANK != 1 ]] || exit "$((7 * !CAIRN_RESTART_COUNT))"\nsleep 0.2\n')
        (self.work / "fails_once").chmod(0o755)
        flags = ["--nnodes", "2", "--num_gpus", "1", "--cpus", "1", "--memory", "1G", "--workdir", self.work]
        said = slurm.submit(self.script([*flags, "--max-restarts", "1"], ["./fails_once"]))
        # srun gives the highest of the nodes' codes: of the one that failed, and of the one that was stopped. It may
        # stop the node that failed before the launcher's words of it have come over.
        if (not re.search("exited with (exit )?code 7", said, re.IGNORECASE)
                or not re.search(r"exit code (7|143): restart 1 of 1 in 1 s", said)):
            sys.exit(f"a job that fails once: {said}")
        # Rank 0 of the first start may be stopped before it has begun.
        starts = set(started.read_text().splitlines()) - {"start 0 of rank 0"}
        if starts != {"start 0 of rank 1", "start 1 of rank 0", "start 1 of rank 1"}:
            sys.exit(f"a job that fails once: {sorted(starts)}, and {said}")
        print("sbatch, a job that fails once: starts again on both nodes")


class Slurm:
    """Daemons of Slurm that live in one folder, and as long as this object."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**environment(), "SLURM_CONF": str(folder / "slurm.conf")}
        self.environment["PATH"] += ":/usr/sbin"
        self.daemons = contextlib.ExitStack()

    def __enter__(self):
        self.folder.mkdir(mode=0o700)
        (self.folder / "key").write_bytes(secrets.token_bytes(1024))
        (self.folder / "key").chmod(0o600)
        self.write_configuration()
        try:
            self.start("munged", "--foreground", "--force", *(f"--{name}={self.folder / path}" for name, path in {
                "key-file": "key", "socket": "munge", "pid-file": "munge.pid", "log-file": "munge.log",
                "seed-file": "munge.seed"}.items()))
            self.wait("munged", lambda: (self.folder / "munge").exists())
            self.start("slurmctld", "-D", "-c")
            for node in self.nodes:
                self.start("slurmd", "-D", "-N", node)
            self.wait("Slurm's nodes", lambda: self.says("sinfo", "--noheader", "--partition=here",
                                                         "--format=%t %D") == "idle 2")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.daemons.close()

    def write_configuration(self):
        # Jobs meet at the first node's name, so the names are addresses of this machine.
        self.nodes = ["127.0.0.1", "127.0.0.2"]
        folder, user, host = self.folder, getpass.getuser(), socket.gethostname().split(".")[0]
        with contextlib.ExitStack() as taken:
            sockets = [taken.enter_context(socket.socket()) for _ in range(3)]
            for each in sockets:
                each.bind(("127.0.0.1", 0))
            ports = [each.getsockname()[1] for each in sockets]
        # Nodes may claim more than the machine has. What a GPU's "file" is, nobody looks at until a job limits devices.
        has = "CPUs=32 RealMemory=600000 Gres=gpu:8"
        for i in range(8):
            (folder / f"gpu{i}").touch()
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-7]\n")
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        nodes = "\n".join(f"NodeName={node} NodeAddr={node} NodeHostname={host} Port={port} {has}"
                          for node, port in zip(self.nodes, ports[1:]))
        (folder / "slurm.conf").write_text(f"""ClusterName=check
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
GresTypes=gpu
ResumeProgram=/bin/true
SuspendProgram=/bin/true
SuspendTime=3600
{nodes}
NodeName=planned-[1-128] {has} State=CLOUD
PartitionName=here Nodes={",".join(self.nodes)} Default=YES MaxTime=INFINITE State=UP
PartitionName=planned Nodes=planned-[1-128] MaxTime=INFINITE State=UP
""")

    def start(self, *words):
        daemon = subprocess.Popen(words, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def stop():
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons.callback(stop)

    def wait(self, what, ready):
        until = time.monotonic() + 60
        while not ready():
            if time.monotonic() > until:
                sys.exit(f"{what} did not start:\n" + "\n".join(
                    log.read_text() for log in sorted(self.folder.glob("*.log"))))
            time.sleep(0.2)

    def says(self, *words):
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60).stdout.strip()

    def run(self, *words):
        return run(words, env=self.environment, cwd=self.folder.parent)

    def submit(self, script):
        """Runs the job to its end and returns its output."""
        before = set(self.folder.parent.glob("*.out"))
        outputs = lambda: "\n".join(path.read_text() for path in set(self.folder.parent.glob("*.out")) - before)
        done = subprocess.run(["sbatch", "--wait", script], env=self.environment, cwd=self.folder.parent,
                              capture_output=True, text=True, timeout=180)
        if done.returncode != 0:
            sys.exit(f"sbatch {script}: exit code {done.returncode}\n{done.stdout}{done.stderr}{outputs()}")
        return outputs()


def main():
    launchers = ["slurm", "mpirun", "torchrun"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("launchers", nargs="*", metavar="LAUNCHER", help=", ".join(launchers))
    parser.add_argument("--cairn", default=str(ROOT / "build/release/bin/cairn"))
    options = parser.parse_args()
    if unknown := set(options.launchers) - set(launchers):
        parser.error(f"no launchers: {', '.join(sorted(unknown))}")
    missing = []
    with tempfile.TemporaryDirectory() as work:
        check = Check(options.cairn, Path(work))
        for launcher in options.launchers or launchers:
            try:
                getattr(check, launcher)()
            except Missing as error:
                missing.append(f"{launcher} is left out: {error}")
    if missing:
        print("\n".join(missing))
        sys.exit(77 if options.launchers or len(missing) == len(launchers) else 0)


if __name__ == "__main__":
    main()
