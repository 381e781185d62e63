#!/usr/bin/env python3
"""Fails if a program that trains with the library needs more than libtorch, libfmt,
liburing, libz and the system's own libraries at run time.

    tools/check_needed.py PROGRAM
"""

import re
import subprocess
import sys

ALLOWED = re.compile(r"lib(torch|torch_cpu|c10|fmt|uring|z|stdc\+\+|m|gcc_s|c|pthread|dl|rt|gomp)[.-]|ld-linux")


def needed(program):
    text = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


def main():
    libraries = needed(sys.argv[1])
    others = [library for library in libraries if not ALLOWED.match(library)]
    if not libraries or others:
        sys.exit(f"{sys.argv[1]} needs {', '.join(others or ['no library at all'])}")
    print(f"needs {', '.join(libraries)}")


if __name__ == "__main__":
    main()
