"""The little training that drills disturb, and what it ends with undisturbed."""

import pathlib
import shutil

from program import Failed, Program, run

STEPS = 6


class Training:
    """Data, tokenizer and the checkpoint of the undisturbed run, made once."""

    def __init__(self, cairn, folder, share_gpu=False):
        self.cairn = cairn
        self.share_gpu = share_gpu
        self.folder = pathlib.Path(folder)
        stories = self.folder / "stories.jsonl"
        run([cairn, "data", "sample-corpus", "--output", stories, "--size", "100KB",
             "--workers", "1"])
        run([cairn, "train-tokenizer", stories, self.folder / "bpe", "--vocab-size", "300"])
        self.tokenizer = self.folder / "bpe" / "tokenizer.json"
        self.stories = stories
        self.data = self.folder / "gpt_text_document"
        run([cairn, "preprocess", "--input", stories, "--output-prefix", self.folder / "gpt",
             "--tokenizer-model", self.tokenizer, "--append-eod"])
        self.wanted = self.folder / "undisturbed"
        run(self.words(self.wanted), environment=self.devices())

    def devices(self):
        """The environment by which ranks find the GPU that they share, if they do."""
        return {"CUDA_VISIBLE_DEVICES": "0"} if self.share_gpu else {}

    def timeout(self):
        """Seconds in which a rank must reach a collective: over NCCL the first is slow."""
        return 10 if self.share_gpu else 3

    def words(self, save, ranks=2, restarts=0, steps=STEPS):
        return [
            self.cairn, "launch", "--num_gpus", ranks, "--max-restarts", restarts,
            "--restart-delay", "0", "--grace", "2", *(["--share_gpu"] if self.share_gpu else []),
            "pretrain", "gpt", "--num-layers", "1", "--hidden-size", "32",
            "--num-attention-heads", "2", "--seq-length", "32", "--micro-batch-size", "2",
            "--global-batch-size", 8, "--train-iters", steps, "--lr", "1e-3",
            "--lr-decay-iters", "100", "--data-path", self.data,
            "--tokenizer-model", self.tokenizer, "--split", "90,5,5", "--eval-iters", "1",
            "--eval-interval", "1000", "--log-interval", "1",
            "--save", save, "--load", save, "--save-interval", "1"]

    def start(self, save, environment=None, **options):
        return Program(self.words(save, **options), {**self.devices(), **(environment or {})})

    def finish(self, save):
        """Runs on to the end and holds the weights against the undisturbed run's."""
        run(self.words(save), environment=self.devices())
        self.check(save)

    def check(self, save):
        text = run([self.cairn, "checkpoint", "diff", save, self.wanted], code=None)
        if "the same" not in text:
            raise Failed(f"other weights than undisturbed:\n{text[-2000:]}")
        run([self.cairn, "checkpoint", "verify", save])

    def new_save(self, name):
        save = self.folder / name
        shutil.rmtree(save, ignore_errors=True)
        return save
