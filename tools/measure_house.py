#!/usr/bin/env python3
"""measure_house.py [COMMIT]: figures about the structure of the source, as a table.

For a commit other than the checkout's it reads that commit's files. Functions and classes
are found by the layout that clang-format gives: a body ends at a brace in the column where
its first line begins.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = (".h", ".cpp", ".cu", ".cuh")


def files_of(commit):
    """path -> text of every source file."""
    if commit is None:
        names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return {
            name: (ROOT / name).read_text(encoding="utf-8")
            for name in names.split()
            if name.endswith(CODE) and (ROOT / name).exists()
        }
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True, check=True
    ).stdout
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            member.name: tar.extractfile(member).read().decode()
            for member in tar.getmembers()
            if member.isfile() and member.name.endswith(CODE)
        }


def bodies(text):
    """The lines of every function that is defined at the outermost level."""
    begin = None
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if begin is None and re.match(r"[A-Za-z_\[].*[({,]$|[A-Za-z_].*\) .*\{$", line):
            if not re.match(r"(namespace|class|struct|enum|using|extern|constexpr .*=|const .*=)", line):
                begin = number
        elif line == "}" and begin is not None:
            yield lines[begin : number + 1]
            begin = None
        elif line in ("", "};") or line.endswith(";") and not line.startswith(" "):
            begin = None if line != "" else begin


def functions(text):
    """The number of lines of every function."""
    return map(len, bodies(text))


def branches(text):
    """The number of places in every function where control may go two ways."""
    for body in bodies(text):
        code = re.sub(r'"(\\.|[^"\\])*"|//.*', "", "\n".join(body))
        yield len(re.findall(r"\b(?:if|for|while|case|catch)\b|&&|\|\||\?", code))


def classes(text):
    """(name, functions, data members) of every class that is defined at the outermost level."""
    for match in re.finditer(r"^(?:class|struct) (\w+)[^;{]*\{\n(.*?)^\};", text, re.M | re.S):
        body = match.group(2)
        members = len(re.findall(r"^  (?! )[\w:<>,*& \[\]]+[ &*]\w+_?(?: = [^;]*|\{[^;]*\})?;", body, re.M))
        calls = len(re.findall(r"^  (?!//|return|if|for|using|friend)[\w~\[].*?\(", body, re.M))
        yield match.group(1), calls, members


def measure(files):
    source = {name: text for name, text in files.items() if name.startswith(("src/", "include/"))}
    folder = collections.Counter(name.split("/")[1] for name in source if name.startswith("src/"))
    rooms = collections.Counter("/".join(name.split("/")[1:-1]) for name in source if name.startswith("src/"))
    foreign = [
        (name, include)
        for name, text in source.items()
        for include in re.findall(r'#include "([a-z_]+)/(?!internal/)', text)
        if name.startswith("src/") and include != name.split("/")[1] and f"src/{include}" in {
            "/".join(other.split("/")[:2]) for other in source
        }
    ]
    long_functions = [
        lines
        for name, text in source.items()
        if name.endswith(".cpp") and not re.search(r"_rows\.cpp|/flags_|/keys_", name)
        for lines in functions(text)
        if lines > 80
    ]
    largest = max((row for text in source.values() for row in classes(text)), key=lambda row: row[1] + row[2])
    tests = [text for name, text in files.items() if name.startswith("tests/")]
    return {
        "files under src": sum(folder.values()),
        "largest folder without sub-rooms": "{1} {0}".format(*rooms.most_common(1)[0]),
        "public headers": sum(name.startswith("include/") for name in source),
        "headers for other folders of the library": sum("/internal/" in name for name in source),
        "private headers included across folders, places": len(foreign),
        "functions above 80 lines (tables left out)": len(long_functions),
        "functions above 15 branches": sum(
            count > 15 for name, text in source.items() if name.endswith(".cpp") for count in branches(text)
        ),
        "largest class: functions + data members": f"{largest[0]}: {largest[1]} + {largest[2]}",
        "lines of src and include": sum(text.count("\n") for text in source.values()),
        "lines of tests": sum(text.count("\n") for text in tests),
    }


def folders(files):
    """folder of src -> the number of its files, and its rooms"""
    found = {}
    for name in files:
        parts = name.split("/")
        if parts[0] == "src" and len(parts) > 2:
            count, rooms = found.setdefault(parts[1], (0, set()))
            found[parts[1]] = (count + 1, rooms | set(parts[2:-1][:1]) - {"internal"})
    return found


def main():
    commit = sys.argv[1] if len(sys.argv) > 1 else None
    files = files_of(commit)
    print("| measured | |\n|---|---|")
    for what, value in measure(files).items():
        print(f"| {what} | {value} |")
    print("\n| folder | files | rooms |\n|---|---:|---|")
    for folder, (count, rooms) in sorted(folders(files).items()):
        print(f"| {folder} | {count} | {', '.join(sorted(rooms))} |")


if __name__ == "__main__":
    main()
