#!/usr/bin/env python3
"""Fails when a mutable variable outside of every object is not in the list of src/README.md.

Found by the layout that clang-format gives: a definition in the first column, a `static` within a
function, every `thread_local`. Constants are not looked for, unless they are `thread_local`: a
thread has them in order to write into the memory that they point to.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = (".h", ".cpp", ".cu", ".cuh")
CONSTANT = re.compile(r"\b(const|constexpr|constinit const|using|typedef|return|template|friend)\b")
THREAD_LOCAL = re.compile(r"\bthread_local\b[^=;{(]*?(\w+)(?:\[\w*\])?\s*(?:[=;{(]|$)")
INNER = re.compile(r"^\s+static\b.*?(\w+)(?:\[\w*\])?(?: =.*|\{.*\})?;$")
OUTER = re.compile(
    r"^(?!namespace|class|struct|enum|extern \"C\"|}|#|//|case|public|private)"
    r"(?:(?:static|inline|thread_local|extern) )*[\w:<>,*& ]+[ *&](\w+)(?:\[\w*\])?(?: = .*|\{.*\})?;$"
)


def found_in(text):
    """Names of the variables that a file defines."""
    for line in text.splitlines():
        line = re.sub(r"\s*//.*", "", line)
        if match := THREAD_LOCAL.search(line):
            yield match[1]
            continue
        match = (INNER if line.startswith(" ") else OUTER).match(line)
        if not match or CONSTANT.search(line):
            continue
        declarator = re.split(r" = |\{", line)[0]
        if "(" not in declarator:  # otherwise a function
            yield match[1]


def listed():
    """(file, name) of every row of the list."""
    rows = re.findall(r"^\| `(src/[^`]+)` \| (`[^|]+`) \|", (ROOT / "src/README.md").read_text(), re.M)
    return {(file, name) for file, names in rows for name in re.findall(r"`(\w+)`", names)}


def main():
    found = set()
    for top in ("src", "include"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in CODE and "gloo_headers" not in path.parts:
                found |= {(str(path.relative_to(ROOT)), name) for name in found_in(path.read_text())}
    problems = [
        f"{file}: {name} is a mutable global: put it into an object, or into the list of src/README.md with its reason"
        for file, name in sorted(found - listed())
    ]
    problems += [f"src/README.md: {name} is listed, but {file} has none" for file, name in sorted(listed() - found)]
    print("\n".join(problems) or f"globals: {len(found)}, all listed")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
