#!/usr/bin/env python3
"""Runs lm-evaluation-harness against `cairn serve`.

    check_lm_eval.py CAIRN

CAIRN is the program. A small GPT-2 with random weights and a tokenizer of its own are made with
transformers. The harness then evaluates it twice: through its client of OpenAI-style servers
(`local-completions`), which asks `cairn serve`, and with transformers itself (`hf`). Three tasks
stand for the three kinds of request that the harness makes: choices are scored, a text's perplexity
is measured, and a text is written. All results have to agree. Ends with 77 where a package is missing:
lm_eval with its extras `api` and `hf`, transformers or tokenizers.
"""
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
try:
    import accelerate  # which lm_eval needs for `hf`
    import lm_eval
    import tokenizers
    import torch
    import transformers
    from lm_eval.tasks import TaskManager
except ImportError as missing:
    print(missing)
    sys.exit(77)

WORDS = ("the a one old young small river stone path house light bird song night day walks sees finds "
         "carries leaves and but then under over near far slowly never always").split()


def sentence(draw, length):
    return " ".join(draw.choice(WORDS) for _ in range(length))


def make_model(folder):
    draw = random.Random(1)
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        [sentence(draw, 20) for _ in range(500)], vocab_size=400, special_tokens=["<|endoftext|>"])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", bos_token="<|endoftext|>")
    fast.save_pretrained(folder)
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=len(fast), n_positions=256, n_embd=64, n_layer=2, n_head=4,
        initializer_range=0.3, bos_token_id=0, eos_token_id=0))
    model.save_pretrained(folder)


TASKS = {
    "choices": {
        "output_type": "multiple_choice", "doc_to_text": "{{question}}",
        "doc_to_choice": "{{choices}}", "doc_to_target": "{{answer}}",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]},
    "perplexity": {
        "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "word_perplexity"}, {"metric": "byte_perplexity"}]},
    "writing": {
        "output_type": "generate_until", "doc_to_text": "{{question}}",
        "doc_to_target": "{{text}}",
        "generation_kwargs": {"until": ["river"], "max_gen_toks": 24, "do_sample": False},
        "metric_list": [{"metric": "exact_match"}]},
}


def make_tasks(folder):
    """Tasks in YAML, which JSON is a part of, with files of their own."""
    draw = random.Random(2)
    for name, task in TASKS.items():
        documents = [{"question": sentence(draw, 6), "text": sentence(draw, 30), "answer": draw.randrange(3),
                      "choices": [" " + sentence(draw, 1 + i) for i in range(3)]} for _ in range(24)]
        file = folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(document) + "\n" for document in documents))
        task |= {"task": f"cairn_{name}", "dataset_path": "json", "test_split": "test",
                 "dataset_kwargs": {"data_files": {"test": str(file)}}, "metadata": {"version": 1}}
        (folder / f"{name}.yaml").write_text(json.dumps(task))


def evaluated(manager, model, arguments):
    found = lm_eval.simple_evaluate(
        model=model, model_args=arguments, tasks=[f"cairn_{name}" for name in TASKS],
        task_manager=manager, log_samples=True, bootstrap_iters=0)
    answers = {task: [sample["filtered_resps"] for sample in sorted(samples, key=lambda each: each["doc_id"])]
               for task, samples in found["samples"].items()}
    metrics = {task: {name: value for name, value in values.items() if isinstance(value, float)}
               for task, values in found["results"].items()}
    return metrics, answers


def flat(value):
    """All texts and numbers of nested lists, in order."""
    if isinstance(value, (list, tuple)):
        return [each for part in value for each in flat(part)]
    return [value]


def differences(ours, theirs):
    problems = []
    for task, answers in theirs.items():
        for number, (mine, other) in enumerate(zip(flat(ours[task]), flat(answers), strict=True)):
            near = (abs(float(mine) - float(other)) <= 1e-3 * (1 + abs(float(other)))
                    if isinstance(other, (float, int)) else mine == other)
            if not near:
                problems.append(f"{task}, answer {number}: {mine!r} instead of {other!r}")
    return problems


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(server, port):
    for _ in range(600):
        if server.poll() is not None:
            sys.exit("cairn serve ended")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit("cairn serve does not answer")


def main():
    cairn, = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        model = folder / "model"
        make_model(model)
        make_tasks(folder)
        manager = TaskManager(include_path=str(folder), include_defaults=False)
        port = free_port()
        server = subprocess.Popen([cairn, "serve", "--load", model, "--tokenizer-model",
                                   model / "tokenizer.json", "--port", str(port)])
        try:
            wait_for(server, port)
            ours, our_answers = evaluated(manager, "local-completions", {
                "model": model.name, "base_url": f"http://127.0.0.1:{port}/v1/completions",
                "tokenizer": str(model), "tokenizer_backend": "huggingface", "num_concurrent": 8,
                "max_length": 256})
        finally:
            server.terminate()
            server.wait()
        theirs, their_answers = evaluated(manager, "hf", {
            "pretrained": str(model), "dtype": "float32", "device": "cpu", "max_length": 256})
    for task, values in theirs.items():
        for name, value in values.items():
            print(f"{task}: {name} {ours[task][name]:.6f}, transformers {value:.6f}")
    sys.exit("\n".join(differences(our_answers, their_answers)) or 0)


main()
