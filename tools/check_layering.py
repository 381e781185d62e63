#!/usr/bin/env python3
"""Fails when a file includes a folder that the map in src/README.md does not allow.

Also keeps the back ends behind their wall: c10d and NCCL are named in
src/distributed only, and no .cu file includes libtorch.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](?:cairn/)?([a-z_]+)/[^>"]+[>"]')
BACKEND = re.compile(r'#\s*include\s*[<"](torch/csrc/distributed|nccl\.h|gloo/)')
TORCH = re.compile(r'#\s*include\s*[<"](torch|ATen|c10)/')


def allowed_folders():
    """folder -> every folder it may use, from the table, through others as well."""
    direct = {}
    for line in (ROOT / "src/README.md").read_text().splitlines():
        row = re.match(r"\| `(\w+)` \|.*\|([^|]*)\|$", line)
        if row:
            direct[row[1]] = re.findall(r"\w+", row[2])
    closed = {}

    def close(folder):
        if folder not in closed:
            closed[folder] = {folder}
            for used in direct[folder]:
                closed[folder] |= close(used)
        return closed[folder]

    for folder in direct:
        close(folder)
    return closed


def main():
    allowed = allowed_folders()
    problems = []
    for top in ("src", "include/cairn"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
                continue
            inner = path.relative_to(ROOT / top)
            name = path.relative_to(ROOT)
            if len(inner.parts) == 1:
                continue  # the umbrella header cairn/cairn.h
            folder = inner.parts[0]
            if folder not in allowed:
                problems.append(f"{name}: folder {folder} is not in the map, src/README.md")
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if match and match[1] in allowed and match[1] not in allowed[folder]:
                    may = ", ".join(sorted(allowed[folder] - {folder})) or "nothing"
                    problems.append(f"{name}:{number}: {folder} includes {match[1]}; it may use {may}")
                if BACKEND.search(line) and folder != "distributed":
                    problems.append(f"{name}:{number}: c10d and NCCL are used in src/distributed only")
                if TORCH.search(line) and path.suffix in (".cu", ".cuh"):
                    problems.append(f"{name}:{number}: no libtorch header in device code")
    print("\n".join(problems) or f"layering: {len(allowed)} folders, no break")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
