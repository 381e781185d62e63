#!/usr/bin/env python3
"""Fails on a Markdown link to a file or heading of this repository that is not there.

So does a path between backticks, like `zero/internal/layout.h`, that is no file from the page's
folder, src/, include/cairn/, include/ or the root. Only paths whose first folder is ours count.
Left out: tools/ and examples/, which the peers have too; names that the reader chooses (NAME,
my_…); the changelog, which speaks of the past.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATH = re.compile(r"`([\w.-]+/[\w./-]+\.(?:h|cpp|cu|cuh|py|sh|md|txt))`")
PLACES = ("src", "include/cairn", "include", "")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def anchors(text):
    """The names that headings get on a rendered page."""
    for heading in re.findall(r"^#+ +(.*)$", text, re.M):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        yield plain.strip().replace(" ", "-")


def listed(*patterns):
    """What git has or would add: a link to a build's output works on one machine only."""
    return subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def missing_paths(page, text, known):
    """Matches of paths between backticks that name no file of ours."""
    places = [page.parent, *(ROOT / place for place in PLACES)]
    for path in PATH.finditer(text):
        first = path[1].split("/")[0]
        if first in ("tools", "examples") or re.search("NAME|my_", path[1]):
            continue
        ours = any((place / first).resolve() in known for place in places)
        if ours and not any((place / path[1]).resolve() in known for place in places):
            yield path


def main():
    files = {ROOT / name for name in listed()}
    known = files.union(*(path.parents for path in files))
    problems, count = [], 0
    pages = listed("*.md")
    for name in pages:
        path = ROOT / name
        # A link inside a code block is an example, not a link.
        text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), path.read_text(), flags=re.M | re.S)
        for link in LINK.finditer(text):
            target = link[1]
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            place = f"{name}:{text.count(chr(10), 0, link.start(1)) + 1}"
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            if there not in known or not there.exists():
                problems.append(f"{place}: dead link {target}")
            elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
                problems.append(f"{place}: no heading for {target}")
        for missing in missing_paths(path, text, known) if name != "CHANGELOG.md" else ():
            problems.append(f"{name}:{text.count(chr(10), 0, missing.start()) + 1}: no file {missing[1]}")
    print("\n".join(problems) or f"links: {count} in {len(pages)} files, none dead")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
