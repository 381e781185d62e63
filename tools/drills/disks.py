"""Disks that are full, that fail and that hang, by the shim."""

from program import Failed, Program, no_crash, run


def fail_in_training(drill, action, calls):
    save = drill.training.new_save(action)
    met = drill.shim_met()
    environment = drill.shim(
        action, calls, drill.random.randint(1, 40), save, drill.random.randint(0, 1))
    if action == "hang":
        environment["CAIRN_DISK_TIMEOUT"] = "2"
    code, text = drill.training.start(save, environment).wait(120)
    no_crash(code, text)
    if met.exists() != (code != 0):
        raise Failed(
            f"ended with {code}, fault: {met_text(met)}:\n{text[-2000:]}")
    if met.exists():
        drill.count("faults", 1)
        if str(save) not in text:
            raise Failed(f"the file is not named:\n{text[-2000:]}")
    drill.training.finish(save)


def met_text(met):
    return met.read_text().strip() if met.exists() else "none"


def full_disk(drill):
    """The disk is full from some call of a training on."""
    fail_in_training(drill, "full", "any")


def broken_disk(drill):
    """One call of a training on files fails with EIO."""
    fail_in_training(drill, "eio", drill.random.choice(["write", "open", "rename", "fsync"]))


def hanging_disk(drill):
    """An fsync of a training never returns; CAIRN_DISK_TIMEOUT is 2 s."""
    fail_in_training(drill, "hang", "fsync")


def broken_preprocess(drill):
    """A call of `cairn preprocess` on files fails: an error, and nothing half is left."""
    training = drill.training
    folder = training.new_save("preprocess")
    folder.mkdir()
    met = drill.shim_met()
    action = drill.random.choice(["eio", "full"])
    words = [
        training.cairn, "preprocess", "--input", training.stories,
        "--output-prefix", folder / "gpt", "--tokenizer-model", training.tokenizer,
        "--append-eod", "--workers", "2"]
    program = Program(words, drill.shim(action, "any", drill.random.randint(1, 12), folder))
    code, text = program.wait(60)
    no_crash(code, text)
    if met.exists() != (code != 0):
        raise Failed(f"ended with {code}, fault: {met_text(met)}:\n{text[-2000:]}")
    if met.exists():
        drill.count("faults", 1)
        if list(folder.glob("*.idx")):
            raise Failed(f"a dataset is left that looks complete: {list(folder.iterdir())}")
    run([*words, "--overwrite"])
    run([training.cairn, "data", "verify", folder / "gpt_text_document"])
