#!/usr/bin/env python3
"""compile_alone.py BUILD_DIR [--all | --changed-since COMMIT] [--most N] [--jobs N]

Checks that every source file and header of ours compiles on its own, with warnings as
errors: neither unity builds nor precompiled headers may lend it an include. BUILD_DIR is
a configured folder without either (preset dev); it need not be built.

Without --all the files are those that changed since COMMIT, then others in turn: each
commit starts at another place in the list, so that all are seen within a few commits.
--most limits their number.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout


class Flags:
    """The compiler's flags for each of our files, from compile_commands.json."""

    def __init__(self, build):
        self.commands = {}
        with open(build / "compile_commands.json", encoding="utf-8") as file:
            for entry in json.load(file):
                path = pathlib.Path(entry["file"])
                if path.is_relative_to(ROOT) and not path.is_relative_to(build):
                    self.commands.setdefault(str(path.relative_to(ROOT)), self.cut(entry["command"]))

    @staticmethod
    def cut(command):
        words = shlex.split(command)
        while words and not re.search(r"(\+\+|nvcc)[-\d.]*$", words[0]):  # env, ccache
            words.pop(0)
        end = words.index("-o") if "-o" in words else len(words)
        return words[:end]

    def files(self):
        """Sources that have a command, and the headers beside them."""
        sources = [name for name in self.commands if name.endswith(".cpp")]
        headers = [
            str(path.relative_to(ROOT))
            for top in ("src", "include", "tests")
            for path in (ROOT / top).rglob("*.h")
            if "gloo_headers" not in path.parts
            and self.is_for_this_machine(path.stem)
            and self.of(str(path.relative_to(ROOT)))
        ]
        return sorted(sources + headers)

    def is_for_this_machine(self, header):
        """Headers with instructions of a processor have their name, as have the sources."""
        instructions = [word for word in ("avx", "neon") if word in header]
        return all(any(word in source for source in self.commands) for word in instructions)

    def of(self, name):
        """A header has the flags of a source in its folder (or in the folder that implements it)."""
        if name in self.commands:
            return self.commands[name]
        if name.endswith(".cpp"):
            return None  # for another machine
        path = pathlib.PurePath(name)
        folder = path.parent
        if folder.parts[:2] == ("include", "cairn"):
            folder = pathlib.PurePath("src", *folder.parts[2:])
        own = str(folder / (path.stem + ".cpp"))
        if own in self.commands:
            return self.commands[own]
        # The most capable flags of the folder: a library with libtorch where there are two.
        near = [flags for source, flags in self.commands.items() if pathlib.PurePath(source).parent == folder]
        return max(near, key=len) if near else None


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
    first = [name for name in files if name in changed]
    rest = [name for name in files if name not in changed]
    most = options.most or len(files)
    start = int(git("rev-list", "--count", "HEAD")) * most % max(len(rest), 1)
    return (first + rest[start:] + rest[:start])[:most]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--changed-since", default="HEAD~1", metavar="COMMIT")
    parser.add_argument("--most", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    flags = Flags(options.build)
    files = flags.files()
    names = chosen(files, options)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {pool.submit(check, name, flags.of(name)): name for name in names}
        for count, run in enumerate(concurrent.futures.as_completed(runs), 1):
            if sys.stderr.isatty():
                print(f"\rcompile alone: {count}/{len(names)}\033[K", end="", file=sys.stderr, flush=True)
            if run.result():
                failed += 1
                print(f"{runs[run]} does not compile on its own:\n{run.result()[:3000]}")
    print(f"\ncompile alone: {len(names)} of {len(files)} files, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
