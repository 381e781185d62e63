#!/usr/bin/env bash
# runtime_packages.sh PREFIX PROGRAM…
# Prints the Debian packages whose shared libraries the programs load, one a
# line: what a machine needs that gets the programs and all below PREFIX, and
# nothing to build with. A library from elsewhere is an error; the GPU driver's
# are the business of the machine.
set -euo pipefail
prefix=$(realpath "$1")
shift

owner() { # LIBRARY: dpkg knows a file by its name from before or after /lib became /usr/lib
  local path
  for path in "$1" "$(realpath "$1")" "/usr$1" "${1#/usr}"; do
    dpkg-query -S "$path" 2>/dev/null | sed 's/[:,].*//; q' | grep . && return
  done
  return 1
}

for program in "$@"; do
  ldd "$program"
done | sort -u | while read -r name arrow path _; do
  if [[ $arrow == "=>" && $path == not ]]; then
    [[ $name == libcuda.so.* || $name == libnvidia-ml.so.* ]] && continue
    echo "runtime_packages.sh: $name is not found" >&2
    exit 1
  fi
  [[ $arrow == "=>" && $(realpath "$path") != "$prefix"/* ]] || continue
  owner "$path" || {
    echo "runtime_packages.sh: $path is of no package and not below $prefix" >&2
    exit 1
  }
done | sort -u
