#!/usr/bin/env bash
# Builds the Python package and runs its tests, with a Python of its own that has torch.
#
#   tools/test_python.sh --fetch   only gets that Python ready, to be done beside a build
#   tools/test_python.sh
#
# torch for Python takes 5 GB with the libraries for GPUs that it loads at its start, on
# machines without a GPU too. Where there is no room for it, or it cannot be fetched, this
# says so and succeeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CAIRN_GPU=${CAIRN_GPU:-0}
source tools/setup.sh

version=$(awk '$1 == "wheel" && $2 == "torch" { print $3; exit }' dependencies.txt)
cache=${CAIRN_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/cairn}
place=$cache/python-torch-$version
python=$place/bin/python3

skip() {
  echo "cairn: the Python package was not tested: $1" >&2
  exit 0
}

fetch() {
  [[ -e $place/ready ]] && return
  mkdir -p "$cache"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "python3 is older than 3.10"
  local room
  room=$(df --output=avail -B1G "$cache" | tail -n 1)
  ((room >= 20)) || skip "it needs 20 GB of disk, and $cache has $room"
  rm -rf "$place"
  python3 -m venv "$place" || skip "python3 cannot make a virtual environment (Debian's python3-venv)"
  if ! "$place/bin/pip" install --quiet --no-cache-dir "torch==$version" numpy; then
    rm -rf "$place"
    skip "torch $version could not be fetched"
  fi
  touch "$place/ready"
}

exec 9>"${TMPDIR:-/tmp}/cairn-test-python.lock"
flock 9
fetch
[[ ${1:-} == --fetch ]] && exit
[[ -e $("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]] ||
  skip "Python.h is not there (Debian's python3-dev)"
cairn_setup test
cmake -S . -B "$CAIRN_BUILD_DIR" -DCAIRN_PYTHON=ON -DPython_EXECUTABLE="$python" >/dev/null
cairn_build cairn_python_core
ctest --test-dir "$CAIRN_BUILD_DIR" --output-on-failure --label-regex python --parallel 2
