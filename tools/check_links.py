#!/usr/bin/env python3
"""Fails on a Markdown link to a file or heading of this repository that is not there."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def anchors(text):
    """The names that headings get on a rendered page."""
    for heading in re.findall(r"^#+ +(.*)$", text, re.M):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        yield plain.strip().replace(" ", "-")


def main():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    problems, count = [], 0
    for name in listed:
        path = ROOT / name
        # A link inside a code block is an example, not a link.
        text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), path.read_text(), flags=re.M | re.S)
        for number, line in enumerate(text.splitlines(), 1):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                count += 1
                file, _, anchor = target.partition("#")
                there = (path.parent / file).resolve() if file else path
                if not there.exists():
                    problems.append(f"{name}:{number}: dead link {target}")
                elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
                    problems.append(f"{name}:{number}: no heading for {target}")
    print("\n".join(problems) or f"links: {count} in {len(listed)} files, none dead")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
