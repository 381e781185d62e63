#!/usr/bin/env python3
"""run.py --cairn PROGRAM [--check PROGRAM] [--trace] [--peers FOLDER] [--peer NAME]…
          [--row MODEL/BATCH]… [--results FILE] [-- FLAG…]

Trains GPT-2 of several sizes, a Llama, BERT and T5 on one GPU, Cairn and its peers in
turns, and prints a table in Markdown: tokens per second, memory (GB of 1e9 bytes), MFU and the
ratio to the fastest peer. All train the same way: bf16, a vocabulary of 50304, AdamW with fp32 weights and
moments, clipping, no dropout, on random tokens.

  --cairn    a program with GPU parts: build/release/bin/cairn-cuda, or the `run` of
             tools/gpu_bundle.sh followed by cairn-cuda, in quotes
  --check    a program with the GPU tests: build/release/tests/gpu_test, or the `run` of
             tools/gpu_bundle.sh followed by gpu_test, in quotes. First kernels, products,
             attention, fp8 and experts are compared with their twins; nothing is measured
             unless all are right
  --trace    every row of Cairn runs once more under the profiler: a table says where the time
             of a step goes, beside the least that it can take (components.py, least.py)
  --peers    for the rows of GPT-2 a folder with bench_torch.py and nanogpt_model.py
             (nanoGPT with and without torch.compile, DeepSpeed) and perhaps
             llmc/train_gpt2cu (llm.c); without it they have no peers. The other rows'
             peers are in peers/ beside this script
  --peer     more than one may be given; with --peers the default is compile and llmc,
             without it none. eager, compile: PyTorch; ds1, ds1c, llmc: GPT-2 only;
             unmasked: BERT and T5 compiled, without the mask of padding; fp8, delayed: no
             peers, but Cairn once more with --fp8-format hybrid, and with --fp8-recipe delayed
  --row      such as 124M/64; more than one may be given (default: the whole table)
  --rounds   the whole list so many times; the median counts (default 1)
  --steps    steps of Cairn's and llm.c's trainings; the first quarter warms up, and the
             median of the rest counts (default 24). The others always take 4 to warm up and
             12 that count
  --results  also writes every figure as JSON, with date, commit and versions; memory in bytes.
             Older files have it in units of 2**30 bytes ("gibibytes"). While the GPU is busy,
             its clock and power are read ten times a second: their medians are there too
  --commit   what the program was built from, where this script is not in its repository
  --device cpu and the rows tiny/2, tiny-llama/2, tiny-bert/2 and tiny-t5/2 try the script
             itself on a machine without a GPU

A token is one of the sequence; for T5 one of the encoder's or the decoder's: a sample has
512 + 128. T5-345M is as wide as BERT-large and has 10 + 10 layers, T5-220M is T5-base, which
with this vocabulary has 237M parameters. Cairn's BERT has its norms before attention and
feed-forward parts, the peer's after them; the work is the same.

MFU counts 6 operations for each multiply-add of the forward pass: one multiplication and
one addition there, and two products of the same size in the backward pass. A sequence of T
tokens and width h, with keys and values of width k from S tokens, takes

  T h (h + h) + S h (k + k)    for the projections of attention
  2 T S h                      for scores and values (the whole square, causal or not, as
                               PaLM, nanoGPT and torchtitan count it)
  2 T h f, or 3 T h f          for a feed-forward part of width f, without or with a gate

in each layer; the decoder of T5 has attention twice, to itself (S = T) and to the encoder
(S = 512). The scores of words take T h V; BERT's count for every token, masked or not, after
one more product of h h, although Cairn computes those that have labels. Embeddings, norms and
biases count nothing.
MFU is given for two peaks: 989 TFLOP/s (the data sheet of an H100 or H200 in bf16) and 756
TFLOP/s (a large product as measured on an H200).
"""

import argparse
import collections
import datetime
import functools
import importlib.metadata
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

import components

Model = collections.namedtuple("Model", "family layers heads hidden length decoder groups ffn")


def model_of(family, layers, heads, hidden, length, decoder=0, groups=None, ffn=None):
    """decoder: the length of its texts; groups: heads of keys and values."""
    return Model(family, layers, heads, hidden, length, decoder, groups or heads, ffn or 4 * hidden)


MODELS = {
    "124M": model_of("gpt", 12, 12, 768, 1024),
    "350M": model_of("gpt", 24, 16, 1024, 1024),
    "774M": model_of("gpt", 36, 20, 1280, 1024),
    "1.5B": model_of("gpt", 48, 25, 1600, 1024),
    "Llama-1B": model_of("llama", 16, 32, 2048, 2048, groups=8, ffn=8192),
    "BERT-large": model_of("bert", 24, 16, 1024, 512),
    "T5-345M": model_of("t5", 10, 16, 1024, 512, decoder=128),
    "T5-220M": model_of("t5", 12, 12, 768, 512, decoder=128),
    "tiny": model_of("gpt", 2, 2, 64, 64),
    "tiny-llama": model_of("llama", 2, 4, 64, 64, groups=2, ffn=128),
    "tiny-bert": model_of("bert", 2, 2, 64, 64),
    "tiny-t5": model_of("t5", 2, 2, 64, 64, decoder=32),
}

# `cairn pretrain` COMMAND FLAGS; the peers' script, which knows a tiny row as SMALLEST --tiny
Family = collections.namedtuple("Family", "command flags peers script smallest", defaults=[None, None])
FAMILIES = {
    "gpt": Family("gpt", "", ["eager", "compile", "ds1", "ds1c", "llmc", "fp8", "delayed"]),
    "llama": Family(
        "gpt",
        "--use-rotary-position-embeddings --rotary-base 500000 --normalization RMSNorm --swiglu "
        "--disable-bias-linear --untie-embeddings-and-output-weights",
        ["eager", "compile", "fp8", "delayed"],
        "llama.py",
        "Llama-1B",
    ),
    "bert": Family("bert", "", ["eager", "compile", "unmasked"], "hf_models.py", "BERT-large"),
    "t5": Family(
        "t5",
        "--position-embedding-type relative --normalization RMSNorm --disable-bias-linear",
        ["eager", "compile", "unmasked"],
        "hf_models.py",
        "T5-220M",
    ),
}
PEERS = list(dict.fromkeys(peer for family in FAMILIES.values() for peer in family.peers))
MODES = {"unmasked": ["compile", "--no-mask"]}  # other peers are modes of the scripts
CAIRN_AGAIN = {  # no peers: Cairn with other flags
    "fp8": ("Cairn fp8", "--fp8-format hybrid"),
    "delayed": ("Cairn fp8 delayed", "--fp8-format hybrid --fp8-recipe delayed"),
}
LLMC = {"124M": "d12", "350M": "d24", "774M": "d36", "1.5B": "d48"}
ROWS = ["124M/64", "350M/32", "774M/16", "1.5B/16", "1.5B/8", "Llama-1B/8", "BERT-large/32", "T5-345M/32"]
PEAKS = [989e12, 756e12]
VOCABULARY = 50304

CHECKED = [  # suites of gpu_test that compare with a twin or with sums in higher precision
    "RowKernels", "DropoutRows", "TableRows", "WordRowsOnGpu", "Fp8Kernels", "JoinedFp8", "ExpertKernels", "GpuClip",
    "GpuScale", "GpuFormula", "SumOfSquares", "UpdateMany/*", "CublasLt", "GpuProduct", "GpuAttention",
    "CudaAttention*", "*/DroppedAttentionGpu*", "DroppedAttentionGpu*", "MixtureGpu",
    "GroupedProductGpu", "OwnGroupProductsGpu", "RouterScoresGpu", "MaskedLabels",
]  # fmt: skip
PACKAGES = ["torch", "transformers", "deepspeed", "triton"]  # those that the peers run on

Figure = collections.namedtuple("Figure", "tokens_per_second bytes loss megahertz watts", defaults=[None, None])


def tokens_per_sample(model):
    return model.length + model.decoder


def operations_per_token(model):
    def attention(tokens, keys):
        key_value = model.hidden * model.groups // model.heads
        projections = 2 * tokens * model.hidden**2 + 2 * keys * model.hidden * key_value
        return projections + 2 * tokens * keys * model.hidden

    def block(tokens):
        products = 3 if model.family == "llama" else 2
        return attention(tokens, tokens) + products * tokens * model.hidden * model.ffn

    scored = model.decoder or model.length
    multiply_adds = model.layers * block(model.length) + scored * model.hidden * VOCABULARY
    if model.decoder:
        multiply_adds += model.layers * (block(model.decoder) + attention(model.decoder, model.length))
    if model.family == "bert":
        multiply_adds += scored * model.hidden**2
    return 6 * multiply_adds / tokens_per_sample(model)


def output_of(command, **options):
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **options)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{shlex.join(map(str, command))}\nnot done after ten minutes") from error
    if result.returncode:
        raise RuntimeError(f"{shlex.join(map(str, command))}\n{(result.stdout + result.stderr)[-2000:]}")
    return result.stdout + result.stderr


def check(options):
    """Runs the GPU tests that say whether what is measured is right; returns how many."""
    names = ":".join(f"{suite}.*" for suite in CHECKED)
    said = output_of([*shlex.split(options.check), f"--gtest_filter={names}"])
    passed = re.search(r"\[  PASSED  \] (\d+) test", said)
    if not passed or passed.group(1) == "0":
        raise RuntimeError(f"{options.check}: none of these tests ran: {names}\n{said[-2000:]}")
    return int(passed.group(1))


class GpuMeter:
    """Reads the GPU's clock and power while a contestant runs."""

    QUERY = "--query-gpu=utilization.gpu,clocks.sm,power.draw"

    def __init__(self, options):
        self.process = None
        self.lines = tempfile.TemporaryFile("w+")
        if options.device == "cuda":
            command = ["nvidia-smi", self.QUERY, "--format=csv,noheader,nounits", "-lms", "100"]
            try:
                self.process = subprocess.Popen(command, stdout=self.lines, stderr=subprocess.DEVNULL)
            except OSError:
                pass  # the figures have no clock

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def medians(self):
        """(MHz, W) while the GPU was busy; none where they were not read. Ends the reading."""
        self.stop()
        self.lines.seek(0)
        return busy_medians(self.lines.read())


def busy_medians(text):
    busy = []
    for line in text.splitlines():
        try:
            used, megahertz, watts = map(float, line.split(","))
        except ValueError:
            continue  # a line that is not whole, or a value that this GPU does not tell
        if used >= 90:
            busy.append((megahertz, watts))
    return tuple(statistics.median(values) for values in zip(*busy)) if busy else (None, None)


def train(options, name, batch, more):
    """Runs `cairn pretrain`; returns its log's lines."""
    model = MODELS[name]
    family = FAMILIES[model.family]
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log.jsonl")
        flags = f"""--mock-data --tokenizer-type NullTokenizer --vocab-size 50256
            --make-vocab-size-divisible-by 128 --num-layers {model.layers}
            --hidden-size {model.hidden} --ffn-hidden-size {model.ffn}
            --num-attention-heads {model.heads} --num-key-value-heads {model.groups}
            --seq-length {model.length} --max-position-embeddings {model.length}
            --micro-batch-size {batch} --global-batch-size {batch}
            --train-iters {options.steps} --eval-iters 0
            --attention-dropout 0 --hidden-dropout 0 --zero-stage 1 --clip-grad 1.0
            --lr 6e-4 --adam-beta2 0.95 --weight-decay 0.1 --log-interval {max(1, options.steps // 4)}
            --log-memory-to-tensorboard --log-jsonl {log} {family.flags}""".split()
        decoder = ["--decoder-seq-length", str(model.decoder)] if model.decoder else []
        # Gradients in bf16, as llm.c's and those of autocast's products are.
        kind = ["--bf16", "--main-grads-dtype", "bf16"] if options.device == "cuda" else []
        program = [*shlex.split(options.cairn), "pretrain", family.command]
        output_of([*program, *flags, *decoder, *kind, *more, *options.more])
        return [json.loads(line) for line in log.read_text().splitlines()]


def trace(options, row, more=()):
    """Where the time of a step goes: lines in Markdown."""
    name, batch = row.split("/")
    first, steps = options.steps // 2, 2
    with tempfile.TemporaryDirectory() as folder:
        flags = f"""--profile --profile-step-start {first} --profile-step-end {first + steps}
            --tensorboard-dir {folder}/tensorboard""".split()
        train(options, name, int(batch), [*more, *flags])
        (file,) = pathlib.Path(folder, "profiling").glob("*.pt.trace.json*")
        events = components.events_of(file)
    if not events:
        return ["no kernels of a GPU in the trace"]
    import least  # it reads the rows of this file

    return list(components.table(events, steps, components.component_of, least.least_times(row)))


def cairn(options, name, batch, more=()):
    model = MODELS[name]
    lines = train(options, name, batch, more)
    steps = [line for line in lines if "samples per second" in line]
    later = steps[1:]  # the first has warmed up
    most = max((line.get("max allocated bytes", 0) for line in later), default=0)
    return Figure(
        statistics.median(line["samples per second"] for line in later) * tokens_per_sample(model),
        most,
        later[-1]["lm loss"] + later[-1].get("sop loss", 0),  # BERT has both
    )


def torch_peer(command):
    text = output_of([sys.executable, *map(str, command)])
    result = json.loads(re.search(r"^RESULT (\{.*\})", text, re.M).group(1))
    # Scripts that are not ours round to units of 2**30 bytes.
    most = result["peak_bytes"] if "peak_bytes" in result else result["peak_gb"] * 2**30
    return Figure(result["tok_s"], most, result["loss"])


def nanogpt(mode, options, name, batch):
    return torch_peer([pathlib.Path(options.peers, "bench_torch.py"), name, batch, mode])


def own_peer(peer, options, name, batch):
    """A peer of the folder beside this script."""
    family = FAMILIES[MODELS[name].family]
    script = pathlib.Path(__file__).parent / "peers" / family.script
    tiny = name.startswith("tiny")
    flags = ["--device", options.device, *(["--tiny"] if tiny else [])]
    return torch_peer([script, family.smallest if tiny else name, batch, *MODES.get(peer, [peer]), *flags])


def llmc(options, name, batch):
    folder = pathlib.Path(options.peers, "llmc")
    length = MODELS[name].length
    flags = f"""-i data/x_train.bin -j data/x_val.bin -e {LLMC[name]} -b {batch} -t {length}
        -d {batch * length} -r 0 -z 0 -c 0.1 -l 0.0006 -q 0.0 -u 700 -n 1000000 -v 1000000
        -m 1 -s 1000000 -g 16 -h 0 -x {options.steps} -ge 2""".split()
    text = output_of(["./train_gpt2cu", *flags], cwd=folder)
    steps = re.findall(r"loss ([\w.]+).*?\| *([\d.]+) ms", text)
    later = steps[len(steps) // 4 :]
    seconds = statistics.median(float(milliseconds) for _, milliseconds in later) / 1e3
    memory = re.findall(r"memory usage: (\d+) MiB", text)
    return Figure(batch * length / seconds, max(map(int, memory), default=0) * 2**20, float(steps[-1][0]))


def contestants(options, family):
    """What trains a model of the family, by its name in the table."""
    names = {"Cairn": cairn}
    for peer in options.peer or (["compile", "llmc"] if options.peers else []):
        if peer not in FAMILIES[family].peers or (
            family == "gpt" and peer not in CAIRN_AGAIN and not options.peers
        ):
            continue
        if peer == "llmc":
            names["llm.c"] = llmc
        elif peer in CAIRN_AGAIN:
            name, flags = CAIRN_AGAIN[peer]
            names[name] = functools.partial(cairn, more=flags.split())
        else:
            train = nanogpt if family == "gpt" else own_peer
            names[f"PyTorch {peer}"] = functools.partial(train, peer)
    return names


def write_results(options, figures):
    """What is there so far: the time on a GPU may end before the table does."""
    if options.results:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        everything = {
            "machine": machine(options),
            "flags": options.more,
            "checked": options.checked,
            "figures": {
                row: {name: [figure._asdict() for figure in runs] for name, runs in by_name.items()}
                for row, by_name in figures.items()
            },
            "where the time goes": options.traces,
        }
        options.results.write_text(json.dumps(everything, indent=1) + "\n")


def measure(options):
    """Figures by row and name, every contestant in its turn in every round."""
    figures = collections.defaultdict(lambda: collections.defaultdict(list))
    for _ in range(options.rounds):
        for row in options.row or ROWS:
            model, batch = row.split("/")
            for name, run in contestants(options, MODELS[model].family).items():
                meter = GpuMeter(options)
                try:
                    figure = run(options, model, int(batch))
                    megahertz, watts = meter.medians()
                    figure = figure._replace(megahertz=megahertz, watts=watts)
                except (OSError, RuntimeError, LookupError, ValueError, AttributeError) as error:
                    print(f"{row}, {name}: {error}", file=sys.stderr, flush=True)
                    continue
                finally:
                    meter.stop()
                figures[row][name].append(figure)
                write_results(options, figures)
                print(f"{row}, {name}: {figure.tokens_per_second:.0f} tokens/s", file=sys.stderr, flush=True)
    return figures


def trace_rows(options, figures):
    """Traces what was measured of Cairn."""
    for row, by_name in figures.items():
        for name in by_name:
            if not name.startswith("Cairn"):
                continue
            more = next((flags for title, flags in CAIRN_AGAIN.values() if title == name), "")
            try:
                options.traces[f"{row}, {name}"] = trace(options, row, more.split())
            except (OSError, RuntimeError, LookupError, ValueError, TypeError) as error:
                print(f"{row}, {name}, traced: {error}", file=sys.stderr, flush=True)
            write_results(options, figures)


def median(values):
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def table(figures):
    yield "| model, batch | | tokens/s | memory (GB) | MFU of 989 | of 756 | loss | to the best peer | MHz | W |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for row, by_name in figures.items():
        medians = {name: Figure(*map(median, zip(*runs))) for name, runs in by_name.items()}
        peers = [figure.tokens_per_second for name, figure in medians.items() if not name.startswith("Cairn")]
        for name, figure in medians.items():
            rate = figure.tokens_per_second * operations_per_token(MODELS[row.split("/")[0]])
            used = " | ".join(f"{rate / peak:.1%}" for peak in PEAKS)
            ratio = f"{figure.tokens_per_second / max(peers):.2f}" if peers and name.startswith("Cairn") else ""
            read = " | ".join("" if value is None else f"{value:.0f}" for value in (figure.megahertz, figure.watts))
            yield (
                f"| {row} | {name} | {figure.tokens_per_second:,.0f} | {figure.bytes / 1e9:.1f} "
                f"| {used} | {figure.loss:.3f} | {ratio} | {read} |"
            )


def said_by(*command, **options):
    try:
        return output_of(list(command), **options).strip()
    except (OSError, RuntimeError):
        return None


def commit_of(folder):
    return said_by("git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def package_versions():
    """Of the peers' packages, and of the libraries that come with libtorch as packages."""
    found = {}
    for distribution in importlib.metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower()
        if name in PACKAGES or re.match(r"nvidia-(cublas|cudnn|cuda-runtime|nccl)", name):
            found[name] = distribution.version
    return found


@functools.lru_cache
def machine_of(cairn_program, peers, commit):
    said = {
        "date": datetime.date.today().isoformat(),
        "gpu": said_by("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
        "cairn": said_by(*shlex.split(cairn_program), "--version"),
        "commit": commit or commit_of(pathlib.Path(__file__).parent),
        "torch": said_by(sys.executable, "-c", "import torch; print(torch.__version__)"),
        "cuda": said_by(sys.executable, "-c", "import torch; print(torch.version.cuda)"),
        "cudnn": said_by(sys.executable, "-c", "import torch; print(torch.backends.cudnn.version())"),
        "packages": package_versions(),
        "llm.c": commit_of(pathlib.Path(peers, "llmc")) if peers else None,
    }
    return {name: value for name, value in said.items() if value}


def machine(options):
    return machine_of(options.cairn, options.peers, options.commit)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--peers")
    parser.add_argument("--peer", action="append", choices=PEERS)
    parser.add_argument("--row", action="append")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--check")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--commit")
    parser.add_argument("more", nargs="*", help="flags of `cairn pretrain`, after --")
    options = parser.parse_args()
    for row in options.row or []:
        model, _, batch = row.partition("/")
        if model not in MODELS or not batch.isdigit():
            parser.error(f"no such row: {row}; say one of {', '.join(MODELS)}, a slash and the batch")

    options.checked = None  # how many tests have passed
    options.traces = {}  # tables by row and name
    if options.check:
        try:
            options.checked = check(options)
        except (OSError, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{options.checked} tests against twins passed\n", flush=True)
    figures = measure(options)
    if not figures:
        return 1  # measure() has said why
    print("\n".join(table(figures)), flush=True)
    if options.trace:
        trace_rows(options, figures)
    for title, lines in options.traces.items():
        print(f"\n{title}\n", *lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
