#!/usr/bin/env python3
"""Fails when a file includes what the map in src/README.md does not allow.

- A folder includes only the folders that the map names for it, and of those only public
  headers (<cairn/x/…>) and internal ones ("x/internal/…"); the rest of a folder is its own.
- A public header includes public headers alone, and is one that the docs or an example
  name, or that such a header needs.
- Examples include public headers alone.
- c10d and NCCL are named in src/distributed only, and no .cu file includes libtorch.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = (".h", ".cpp", ".cu", ".cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<cairn/(?P<public>[^>]+)>|"(?P<own>[^"]+)")')
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


def code_under(top):
    return (path for path in sorted((ROOT / top).rglob("*")) if path.suffix in CODE)


def check_file(path, folder, allowed, public):
    """What is wrong with the includes of one file, as `line: problem`."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            header = match["public"] or match["own"]
            used = header.split("/")[0]
            if match["own"] and public:
                yield f"{number}: a public header includes {header}, which is not"
            elif used in allowed and used not in allowed[folder]:
                may = ", ".join(sorted(allowed[folder] - {folder})) or "nothing"
                yield f"{number}: {folder} includes {used}; it may use {may}"
            elif match["own"] and used in allowed and used != folder and header.split("/")[1] != "internal":
                yield f"{number}: {header} is private to {used}; others include {used}/internal/… or <cairn/{used}/…>"
        if BACKEND.search(line) and folder != "distributed":
            yield f"{number}: c10d and NCCL are used in src/distributed only"
        if TORCH.search(line) and path.suffix in (".cu", ".cuh"):
            yield f"{number}: no libtorch header in device code"


def public_headers(text):
    return re.findall(r"\bcairn/([a-z0-9_/]+\.h)\b", text)


def unneeded_headers():
    """Public headers that neither docs nor examples name, and that none of those needs."""
    top = ROOT / "include/cairn"
    headers = {str(path.relative_to(top)): path for path in code_under("include/cairn")}
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *code_under("examples")]
    open_ = {header for page in pages for header in public_headers(page.read_text())}
    needed = set()
    while open_:
        header = open_.pop()
        if header in headers and header not in needed:
            needed.add(header)
            open_ |= set(public_headers(headers[header].read_text()))
    return sorted(set(headers) - needed)


def main():
    allowed = allowed_folders()
    problems = []
    for top in ("src", "include/cairn"):
        for path in code_under(top):
            folder = path.relative_to(ROOT / top).parts[0]
            if path.parent == ROOT / top:
                continue  # the umbrella header cairn/cairn.h
            name = path.relative_to(ROOT)
            if folder not in allowed:
                problems.append(f"{name}: folder {folder} is not in the map, src/README.md")
                continue
            problems += (f"{name}:{found}" for found in check_file(path, folder, allowed, top != "src"))
    for path in code_under("examples"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match and match["own"] and match["own"].split("/")[0] in allowed:
                problems.append(f"{path.relative_to(ROOT)}:{number}: an example includes public headers alone")
    problems += (
        f"include/cairn/{header}: no page, example or other public header names it; it belongs in src/"
        for header in unneeded_headers()
    )
    print("\n".join(problems) or f"layering: {len(allowed)} folders, no break")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
