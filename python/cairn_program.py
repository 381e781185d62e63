"""Becomes the program `cairn`. Not a part of the package `cairn`, whose import takes as
long as torch's."""

import os
import sys


def main() -> None:
    """Replaces this process by the program, with the same arguments."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cairn", "bin", "cairn")
    # What it starts with "python3" is this Python.
    folder = os.path.dirname(sys.executable)
    os.environ["PATH"] = folder + os.pathsep + os.environ.get("PATH", os.defpath)
    os.execv(program, [program, *sys.argv[1:]])
