#!/usr/bin/env python3
"""Fails on C++ that clang-format would change; with --fix it changes it."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINNED = 14  # versions of clang-format disagree with each other


def main():
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
    if f"version {PINNED}." not in version:
        print(f"clang-format {PINNED} is needed, found: {version.strip()}")
        return 1
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cpp", "*.cu", "*.cuh"],
        cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = [name for name in files if (ROOT / name).exists()]
    how = ["-i"] if "--fix" in sys.argv[1:] else ["--dry-run", "--Werror"]
    result = subprocess.run(["clang-format", *how, *files], cwd=ROOT)
    if result.returncode == 0:
        print(f"format: {len(files)} files")
    else:
        print("run tools/check_format.py --fix")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
