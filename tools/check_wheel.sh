#!/usr/bin/env bash
# Builds the wheel as `pip install .` does, installs it where nothing of this checkout is
# in sight, and uses both halves of it: the package and the program.
#
#   tools/check_wheel.sh PYTHON [folder of a wheel that is built already]
#
# PYTHON has torch, pip and, to build, scikit-build-core. The build compiles everything
# that has changed: up to an hour on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$1
folder=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "check_wheel: $*" >&2
  exit 1
}

if [[ -z $folder ]]; then
  folder=$work/wheel
  "$python" -m pip wheel . --no-deps --no-build-isolation --wheel-dir "$folder"
fi
wheel=$(ls "$folder"/cairn-*.whl)
echo "the wheel: $(basename "$wheel"), $(du -h "$wheel" | cut -f 1)"
"$python" - "$wheel" <<'EOF'
import re, sys, zipfile

wheel = zipfile.ZipFile(sys.argv[1])
names = wheel.namelist()
foreign = [n for n in names if re.search(r"lib(torch|c10|cud|nccl|gomp)|(^|/)(torch|nvidia)/", n)]
assert not foreign, f"the wheel brings what torch has: {foreign}"
metadata = wheel.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
assert "Requires-Dist: torch==2.11.0" in metadata, metadata
for wanted in ("cairn/__init__.py", "cairn/py.typed", "cairn/bin/cairn", "cairn/bin/cairn-torch", "cairn_program.py"):
    assert wanted in names, f"{wanted} is not in the wheel"
EOF

"$python" -m venv "$work/venv"
site=$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$work/venv/bin/pip" install --quiet --no-deps --no-index "$wheel"
# torch as if installed there: its libraries are at their fixed place beside the package.
theirs=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for each in "$theirs"/*; do
  [[ -e $site/$(basename "$each") ]] || ln -s "$each" "$site/"
done
for binary in "$site"/cairn/_core*.so "$site"/cairn/bin/cairn-torch; do
  readelf -d "$binary" | grep -E 'R(UN)?PATH' | grep -q '\[\$ORIGIN/\.\./\(\.\./\)\?torch/lib\]' ||
    fail "$binary looks for torch elsewhere: $(readelf -d "$binary" | grep -E 'R(UN)?PATH')"
done

examples=$PWD/examples/python
cd "$work"
unset PYTHONPATH LD_LIBRARY_PATH
"$work/venv/bin/python" -c 'import cairn; print("import cairn", cairn.__version__, cairn.__file__)'
"$work/venv/bin/cairn" --version
"$work/venv/bin/cairn" info >info.txt || fail "cairn info: $(cat info.txt)"
OMP_NUM_THREADS=1 "$work/venv/bin/cairn" launch --num_gpus 2 "$examples/train.py" --stage 3 | tail -n 1

# Another torch is refused when the package is imported.
mkdir fake
printf '__version__ = "2.10.0"\n' >fake/torch.py
if PYTHONPATH=fake "$work/venv/bin/python" -c 'import cairn' 2>error.txt; then
  fail "torch 2.10.0 was taken"
fi
grep -q 'pip install torch==2.11.0' error.txt || fail "$(cat error.txt)"
echo "the wheel is as it should be"
