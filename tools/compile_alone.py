#!/usr/bin/env python3
"""compile_alone.py BUILD_DIR [--all | --changed-since COMMIT] [--seconds N] [--jobs N]

Checks that every source file and header of ours compiles on its own, with warnings as
errors: neither unity builds nor precompiled headers may lend it an include. BUILD_DIR is
a configured folder without either (preset dev); it need not be built.

Without --all the files are those that changed since COMMIT, then others in turn: each
commit starts at another place in both lists. With --seconds no file is begun after so long;
1,700 files are then seen after some dozens of commits, and it says how many were left.
"""

import argparse
import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES_OF_A_RUN = 48  # about as many as the time in CI is enough for
STAND_INS = {"gloo_headers", "cuda_on_cpu"}  # headers of another library, as it has them
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<(cairn/[^>]+)>|"([^"]+)")', re.M)


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout


class Flags:
    """The compiler's flags for each of our files, from compile_commands.json."""

    def __init__(self, build):
        self.commands = {}
        with open(build / "compile_commands.json", encoding="utf-8") as file:
            for entry in json.load(file):
                path = pathlib.Path(entry["file"])
                if path.is_relative_to(ROOT) and not path.is_relative_to(build) and path.is_file():
                    self.commands.setdefault(str(path.relative_to(ROOT)), self.cut(entry["command"]))

    @staticmethod
    def cut(command):
        words = shlex.split(command)
        while words and not re.search(r"(\+\+|nvcc)[-\d.]*$", words[0]):  # env, ccache
            words.pop(0)
        end = words.index("-o") if "-o" in words else len(words)
        return words[:end]

    def files(self):
        """Sources that have a command, and all headers."""
        sources = [name for name in self.commands if name.endswith(".cpp")]
        headers = [
            str(path.relative_to(ROOT))
            for top in ("src", "include", "tests", "bench", "examples")
            for path in (ROOT / top).rglob("*.h")
            if not STAND_INS & set(path.parts) and self.is_for_this_machine(path.stem)
            and self.is_built(path)
        ]
        return sorted(sources + headers)

    def is_built(self, header):
        """False for the header of a source that this build leaves out, as one for GPUs."""
        source = header.with_suffix(".cpp")
        return not source.exists() or str(source.relative_to(ROOT)) in self.commands

    def is_for_this_machine(self, header):
        """Headers with instructions of a processor have their name, as have the sources."""
        instructions = [word for word in ("avx", "neon") if word in header]
        return all(any(word in source for source in self.commands) for word in instructions)

    def of(self, name):
        """Flags of a source; for a header those of the source nearest to it.

        That is its own .cpp, one in its folder, one that includes it (of its room if there
        is one), or any of its room. A public header belongs to the room that implements it.
        """
        if name in self.commands:
            return self.commands[name]
        path = pathlib.PurePath(name)
        folder = path.parent
        if folder.parts[:2] == ("include", "cairn"):
            folder = pathlib.PurePath("src", *folder.parts[2:])
        own = str(folder / (path.stem + ".cpp"))
        if own in self.commands:
            return self.commands[own]
        sources = [pathlib.PurePath(source) for source in self.commands if source.endswith(".cpp")]
        near = [source for source in sources if source.parent == folder]
        users = self.including().get(re.sub("^(src|include)/", "", name), [])
        room = pathlib.PurePath(*folder.parts[:2])
        near = near or [source for source in users if source.is_relative_to(room)] or users
        near = near or [source for source in sources if source.is_relative_to(room)] or sources
        # The most capable flags: those of a library with libtorch where there are two.
        return max((self.commands[str(source)] for source in near), key=len)

    @functools.lru_cache
    def including(self):
        """header as it is included -> sources that include it"""
        users = collections.defaultdict(list)
        for source in filter(lambda name: name.endswith(".cpp"), self.commands):
            for public, own in INCLUDE.findall((ROOT / source).read_text(encoding="utf-8")):
                users[public or own].append(pathlib.PurePath(source))
        return users


def check(name, flags):
    """None, or what the compiler said."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as wrapper:
        source = str(ROOT / name)
        if name.endswith(".h"):
            wrapper.write(f'#include "{source}"\n')
            wrapper.flush()
            source = wrapper.name
        result = subprocess.run(
            [*flags, "-Werror", "-Wno-error=maybe-uninitialized", "-fsyntax-only", source],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
    return None if result.returncode == 0 else result.stderr


def chosen(files, options):
    if options.all:
        return files
    changed = set(git("diff", "--name-only", "--diff-filter=d", options.changed_since, "--").split())
    start = int(git("rev-list", "--count", "HEAD")) * FILES_OF_A_RUN

    def turned(names):
        at = start % max(len(names), 1)
        return names[at:] + names[:at]

    return turned([name for name in files if name in changed]) + turned(
        [name for name in files if name not in changed]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--changed-since", default="HEAD~1", metavar="COMMIT")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    flags = Flags(options.build)
    files = flags.files()
    names = chosen(files, options)
    end = time.monotonic() + options.seconds
    checked = failed = 0

    def check_in_time(name):
        """What the compiler said, if anything; None when the time is over."""
        return (check(name, flags.of(name)) or "") if time.monotonic() < end else None

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {pool.submit(check_in_time, name): name for name in names}
        for run in concurrent.futures.as_completed(runs):
            checked += run.result() is not None
            if sys.stderr.isatty():
                print(f"\rcompile alone: {checked}/{len(names)}\033[K", end="", file=sys.stderr, flush=True)
            if run.result():
                failed += 1
                print(f"{runs[run]} does not compile on its own:\n{run.result()[:3000]}")
    print(f"\ncompile alone: {checked} of {len(files)} files, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
