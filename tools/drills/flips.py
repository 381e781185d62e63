"""Bits that flip in the files of a checkpoint and of a dataset."""

import json
import shutil

from program import Failed, Program, no_crash, run


def flip(drill, file):
    """Flips one bit of a file, and returns where."""
    content = bytearray(file.read_bytes())
    bit = drill.random.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    return f"bit {bit % 8} of byte {bit // 8} of {len(content)} in {file.name}"


def flips_in_checkpoints(drill):
    """Copies of a checkpoint, each with a flipped bit, all verified at once."""
    source = sorted(drill.training.wanted.glob("*/manifest.json"))[-1].parent
    folder = drill.training.new_save("flips")
    files = sorted(file.name for file in source.iterdir())
    where = {}
    for number in range(100):
        copy = folder / f"case{number}"
        shutil.copytree(source, copy)
        where[str(copy)] = flip(drill, copy / files[number % len(files)])
    program = Program([drill.training.cairn, "checkpoint", "verify", folder, "--json"])
    code, text = program.wait(120)
    no_crash(code, text)
    drill.count("mutations", len(where))
    try:
        told = json.loads(text[text.index("["):text.rindex("]") + 1])
    except ValueError:
        raise Failed(f"verify (exit code {code}) writes no JSON:\n{text[-2000:]}") from None
    for one in told:
        if not one["faults"]:
            raise Failed(f"believed: {where.pop(one['path'])}")
        where.pop(one["path"])
    if where:
        raise Failed(f"not verified: {list(where.values())[:3]}")
    shutil.rmtree(folder)


def flips_that_load(drill):
    """A training is started from a checkpoint with a flipped bit."""
    save = drill.training.new_save("flip-load")
    shutil.copytree(drill.training.wanted, save)
    newest = max(save.glob("*/manifest.json"), key=lambda file: file.stat().st_mtime_ns).parent
    where = flip(drill, drill.random.choice(sorted(newest.iterdir())))
    drill.count("mutations", 1)
    code, text = drill.training.start(save, steps=8).wait(120)
    no_crash(code, text)
    # Either an older checkpoint is taken, or the training ends with an error.
    if code == 0 and newest.name not in text:
        raise Failed(f"loaded in silence: {where}\n{text[-2000:]}")


def flips_in_datasets(drill):
    """A bit flips in the index or in the tokens; `data verify --against` sees it."""
    cairn = drill.training.cairn
    folder = drill.training.new_save("flips-data")
    folder.mkdir()
    prefix = folder / "gpt_text_document"
    source = drill.training.data
    sums = folder / "sums"
    for ending in (".idx", ".bin"):
        shutil.copy(f"{source}{ending}", f"{prefix}{ending}")
    run([cairn, "data", "verify", prefix, "--write", sums])
    for number in range(20):
        ending = (".idx", ".bin")[number % 2]
        file = prefix.with_name(prefix.name + ending)
        where = flip(drill, file)
        for words in ([cairn, "data", "verify", prefix, "--against", sums],
                      [cairn, "data", "inspect", prefix]):
            code, text = Program(words).wait(60)
            no_crash(code, text)
            if words[2] == "verify" and code == 0:
                raise Failed(f"believed: {where}\n{text}")
        shutil.copy(f"{source}{ending}", file)
        drill.count("mutations", 1)
