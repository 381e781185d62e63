#!/usr/bin/env python3
"""check_includes.py

Checks that files which use libtorch's operators and fmt include them: themselves, or by a
header of ours that they include. Unity builds and precompiled headers hide when they do
not. tools/compile_alone.py finds every such file, but takes an hour for all of them; this
takes a second.
"""

import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["include", "src", "tests", "examples", "bench"]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"', re.S)

# Headers that have every operator.
ALL_OPERATORS = {
    "ATen/ATen.h", "ATen/Functions.h", "torch/csrc/autograd/custom_function.h",
    "torch/nn/module.h", "torch/torch.h", "torch/types.h", "torch/utils.h",
}  # fmt: skip
# Functions in libtorch's namespace that are no operators, and where they are.
NOT_OPERATORS = {
    "get_num_threads": "ATen/Parallel.h", "set_num_threads": "ATen/Parallel.h", "parallel_for": "ATen/Parallel.h",
    "get_num_interop_threads": "ATen/Parallel.h", "set_num_interop_threads": "ATen/Parallel.h",
    "in_parallel_region": "ATen/Parallel.h", "get_cpu_capability": "ATen/Version.h",
    "globalContext": "ATen/Context.h", "manual_seed": "ATen/Context.h",
}  # fmt: skip


@functools.cache
def text_of(path):
    return path.read_text(encoding="utf-8")


@functools.cache
def ours(name, folder):
    """The file of ours that an #include in a folder means, if it is one."""
    for start in (folder, *(ROOT / each for each in FOLDERS)):
        if (start / name).is_file():
            return (start / name).resolve()
    return None


@functools.cache
def included(path):
    """What a file includes: files of ours, and names of others."""
    names = INCLUDE.findall(text_of(path))
    found = {name: ours(name, path.parent) for name in names}
    return {own for own in found.values() if own}, {name for name, own in found.items() if not own}


def headers_of(path):
    """Headers of others that a file includes, itself or by headers of ours."""
    found, seen, rest = set(), {path}, [path]
    while rest:
        own, others = included(rest.pop())
        found |= others
        rest += own - seen
        seen |= own
    return found


def missing_in(path):
    code = COMMENT_OR_STRING.sub(" ", text_of(path))
    headers = headers_of(path)
    if re.search(r"\bfmt::", code) and not any(name.startswith("fmt/") for name in headers):
        yield "fmt/format.h"
    if headers & ALL_OPERATORS:
        return
    for name in sorted(set(re.findall(r"\bat::([a-z_0-9]+)\(", code))):
        header = NOT_OPERATORS.get(name, f"ATen/ops/{name.removesuffix('_out')}.h")
        if header not in headers:
            yield header


def main():
    files = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".h", ".cpp") and "_headers" not in str(path) and "cuda_on_cpu/" not in str(path)
    ]
    faults = [f"{path.relative_to(ROOT)}: <{header}> is not included" for path in files for header in missing_in(path)]
    print("\n".join([*faults, f"includes: {len(files)} files, {len(faults)} includes are missing"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
