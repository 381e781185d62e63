#!/usr/bin/env bash
# ./cairn on machines that lack something: one message that says what to install,
# exit code 1, and nothing changed. Each machine is a PATH made of chosen tools.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# A clone with the scripts alone: if setup went on to CMake, it would fail loudly.
mkdir -p "$work/clone/tools" "$work/clone/share" "$work/home"
cp "$root/share/help.txt" "$work/clone/share/"
cp "$root/cairn" "$root/dependencies.txt" "$work/clone/"
cp "$root/tools/setup.sh" "$work/clone/tools/"

machine() { # makes $work/bin, a PATH with everything but the tools named
  rm -rf "$work/bin"
  mkdir "$work/bin"
  local tool
  for tool in bash env cat dirname uname sha256sum cut sort head awk sed grep tail mktemp rm mkdir flock \
    g++ cmake ninja python3 unzip apt-get apt-cache dpkg; do
    [[ " $* " == *" $tool "* ]] || ln -s "$(command -v "$tool" || echo /missing)" "$work/bin/$tool"
  done
}

run() { # LABEL PATTERN… : what the message must contain
  local label=$1 status=0 pattern
  shift
  (cd "$work/clone" && env -i PATH="$work/bin" HOME="$work/home" PIP_RETRIES=0 PYENV_VERSION="${PYENV_VERSION:-}" \
    "${as_user[@]}" bash ./cairn info) >"$work/out" 2>&1 || status=$?
  [[ $status == 1 ]] || { echo "$label: exit code $status, not 1"; failures=1; }
  for pattern in "$@"; do
    grep -q -- "$pattern" "$work/out" || { echo "$label: no \"$pattern\" in:"; cat "$work/out"; failures=1; }
  done
  if [[ -e $work/clone/build || -n $(ls -A "$work/home") ]]; then
    echo "$label: something was changed"
    failures=1
  fi
}

# Help needs no build: not on a bare machine, and not while another build is under way.
as_user=()
machine apt-get ninja g++ cmake
help=$(cd "$work/clone" && env -i PATH="$work/bin" bash ./cairn --help) || { echo "--help failed"; failures=1; }
[[ $help == "$(<"$root/share/help.txt")" ]] || { echo "--help printed something else: $help"; failures=1; }

machine apt-get ninja
run "no apt-get" "no apt-get" "ninja-build >= 1.11"

machine g++ ninja
printf '#!%s\necho 9.4.0\n' "$(command -v bash)" >"$work/bin/g++"
chmod +x "$work/bin/g++"
run "old compiler and no ninja" "too old" "g++ 12.0 or newer (found 9.4.0" "ninja-build >= 1.11"

machine ninja
if ((EUID == 0)); then
  chmod -R a+rX "$work"
  ln -s "$(command -v setpriv)" "$work/bin/setpriv"
  as_user=(setpriv --reuid 65534 --clear-groups)
fi
run "not root" "needs root" "sudo apt-get install .*ninja-build"

if ((EUID != 0)) || ! unshare -n true 2>/dev/null; then
  echo "left out: without a network (a network namespace of its own needs CAP_SYS_ADMIN)"
else
  # No network at all: pip cannot fetch the wheels, and even the cache folder goes again.
  as_user=(unshare -n)
  machine
  ln -s "$(command -v unshare)" "$work/bin/unshare"
  ln -s "$(command -v rmdir)" "$work/bin/rmdir"
  run "no network" "wheels could not be downloaded" "torch==2.11.0"
fi

# What is built answers while another build holds the lock.
if [[ -e $root/build/release/.setup-test ]] &&
  [[ $(ninja -C "$root/build/release" -n cairn cairn-torch) == *"no work to do"* ]]; then
  exec {lock}>"$root/build/release/.lock"
  flock --shared "$lock"
  timeout 60 "$root/cairn" --version >"$work/out" 2>&1 {lock}>&- || {
    echo "no answer while another build is under way:"
    cat "$work/out"
    failures=1
  }
  exec {lock}>&-

  # So does the program as it was built last, where there is something to build.
  mkdir "$work/stale"
  printf '#!/bin/sh\necho "[1/1] building"\n' >"$work/stale/ninja"
  chmod +x "$work/stale/ninja"
  exec {lock}>"$root/build/release/.lock"
  flock "$lock"
  for question in --version "config --help" "pretrain --help"; do
    PATH=$work/stale:$PATH timeout 60 "$root/cairn" $question >"$work/out" 2>&1 {lock}>&- &&
      grep -q "as it was built last" "$work/out" || {
      echo "./cairn $question: no answer while another build is under way:"
      cat "$work/out"
      failures=1
    }
  done
  exec {lock}>&-
fi

# A build that globs for new files whenever it runs always has work to do: ./cairn would
# wait for other builds, and the progress line could not know what is to be built.
if grep -rnE --include=CMakeLists.txt --include='*.cmake' 'GLOB.*CONFIGURE_DEPENDS' \
  "$root/CMakeLists.txt" "$root"/{cmake,src,python,tests,examples,bench}; then
  echo "name the folder in CMAKE_CONFIGURE_DEPENDS instead (as src/plan/CMakeLists.txt does)"
  failures=1
fi

((failures == 0)) && echo "setup: clear messages, nothing changed"
exit $failures
