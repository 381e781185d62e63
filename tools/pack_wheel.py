#!/usr/bin/env python3
"""pack_wheel.py --tree PREFIX --torch DIR --output FOLDER

Packs installed programs as a wheel. Beside them go the shared libraries that they load,
except libtorch's (the package torch has them), glibc's and the driver's. Prints the
name of the wheel.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Every Linux has these, of its own version; mixing them with others ends badly.
GLIBC = re.compile(r"(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so")
ENTRY = '''"""Starts the program cairn, which lies beside this file."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "cairn")
    os.execv(program, [program, *sys.argv[1:]])
'''


def project(pattern, file):
    return re.search(pattern, (ROOT / file).read_text(encoding="utf-8")).group(1)


def libraries(program, torch):
    """The files that the loader finds for a program and that must come along."""
    listing = subprocess.run(
        ["ldd", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LD_LIBRARY_PATH": f"{torch}/torch/lib:{torch}/nvidia/cu13/lib"},
    ).stdout
    for line in listing.splitlines():
        found = re.match(r"\s*(\S+) => (\S+)", line)
        if not found or GLIBC.match(found.group(1)):
            continue
        name, path = found.groups()
        if path.startswith(torch) or re.match(r"lib(cuda|nvidia-ml)\.so", name):
            continue
        if path == "not":
            # The GPU program names libraries that only machines with a GPU have.
            if program.name == "cairn-cuda":
                continue
            raise SystemExit(f"pack_wheel.py: {program.name} needs {name}, which is not here")
        yield name, path


def set_rpath(program):
    """What the programs were installed with, without the folders of this machine."""
    dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    found = re.search(r"R(?:UN)?PATH\) .*\[(.*)\]", dynamic)
    if not found:
        return
    kept = ":".join(part for part in found.group(1).split(":") if part.startswith("$ORIGIN"))
    change = f'file(RPATH_CHANGE FILE "{program}" OLD_RPATH [[{found.group(1)}]] NEW_RPATH [[{kept}]])'
    script = pathlib.Path(str(program) + ".cmake")
    script.write_text(change, encoding="utf-8")
    subprocess.run(["cmake", "-P", script], check=True)
    script.unlink()


def metadata(version, torch_version):
    return (
        "Metadata-Version: 2.1\n"
        "Name: cairn\n"
        f"Version: {version}\n"
        "Summary: Trains large transformers in C++: ZeRO and 3D parallelism on libtorch\n"
        "License: Apache-2.0\n"
        f"Requires-Dist: torch (=={torch_version})\n"
        "Requires-Python: >=3.9\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tree", "torch", "output"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    version = project(r"project\(cairn VERSION (\S+)", "CMakeLists.txt")
    torch_version = project(r"set\(CAIRN_TORCH_VERSION (\S+)\)", "cmake/CairnTorch.cmake")
    glibc = platform.libc_ver()[1].replace(".", "_")
    tag = f"py3-none-manylinux_{glibc}_{platform.machine()}"
    info = f"cairn-{version}.dist-info"

    files = {}  # name in the wheel -> bytes, mode
    for program in sorted(pathlib.Path(options.tree, "bin").iterdir()):
        for name, path in libraries(program, options.torch):
            files[f"cairn/lib/cairn/{name}"] = (pathlib.Path(path).read_bytes(), 0o755)
        set_rpath(program)
        files[f"cairn/bin/{program.name}"] = (program.read_bytes(), 0o755)
    files["cairn/__init__.py"] = (f'__version__ = "{version}"\n'.encode(), 0o644)
    files["cairn/__main__.py"] = (b"from cairn.program import main\n\nmain()\n", 0o644)
    files["cairn/program.py"] = (ENTRY.encode(), 0o644)
    files[f"{info}/METADATA"] = (metadata(version, torch_version).encode(), 0o644)
    wheel = f"Wheel-Version: 1.0\nGenerator: cairn\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{info}/WHEEL"] = (wheel.encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (b"[console_scripts]\ncairn = cairn.program:main\n", 0o644)
    files[f"{info}/licenses/LICENSE"] = ((ROOT / "LICENSE").read_bytes(), 0o644)

    record = []
    for name, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}")
    record.append(f"{info}/RECORD,,")
    files[f"{info}/RECORD"] = ("\n".join(record).encode() + b"\n", 0o644)

    target = pathlib.Path(options.output, f"cairn-{version}-{tag}.whl")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(target)


if __name__ == "__main__":
    main()
