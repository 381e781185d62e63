#!/usr/bin/env bash
# Builds every part of Cairn with the address and undefined-behaviour sanitizers, runs its tests,
# and prints a table. It takes hours: run it once per release, and note the table in
# docs/reliability.md. CI runs the parts without libtorch only.
#
#   tools/sanitize_all.sh               # all parts
#   tools/sanitize_all.sh zero engine   # these parts
#
# The libtorch wheel itself is not instrumented: errors within it are seen only where it calls
# functions that the sanitizers replace (malloc, memcpy, …).
set -uo pipefail
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CAIRN_GPU=0 CAIRN_PRESET=asan
build=build/asan
logs=$build/sanitized

# Prints the test programs of a folder.
programs_of() { sed -nE 's/^ *cairn_test\(([A-Za-z0-9_]+).*/\1/p' "tests/$1/CMakeLists.txt"; }

parts=("$@")
for part in "${parts[@]}"; do
  [[ -e tests/$part/CMakeLists.txt ]] || { echo "tests/$part is no part with tests; see $0 --help" >&2; exit 2; }
done
if ((${#parts[@]} == 0)); then
  for list in tests/*/CMakeLists.txt; do
    part=$(basename "$(dirname "$list")")
    [[ -n $(programs_of "$part") ]] && parts+=("$part")
  done
fi

# A leak check of libtorch finds what it keeps on purpose. Containers of libtorch are filled by
# code that is not instrumented, which the check for overflows within them takes for errors.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:detect_container_overflow=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export UBSAN_OPTIONS=print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}

bash -c 'source tools/setup.sh; cairn_setup test' || exit 2
mkdir -p "$logs"
rows=()
failures=0
for part in "${parts[@]}"; do
  mapfile -t programs < <(programs_of "$part")
  if ((${#programs[@]} == 0)); then
    rows+=("| $part | not built | | | it has no tests |")
    ((++failures))
    continue
  fi
  log=$logs/$part.build.log
  started=$SECONDS
  if ! bash -c 'source tools/setup.sh; cairn_setup test; cairn_build "$@"' - "${programs[@]}" >"$log" 2>&1; then
    rows+=("| $part | not built | | | see $log |")
    ((++failures))
    continue
  fi
  built=$((SECONDS - started))
  started=$SECONDS
  status=0
  for program in "${programs[@]}"; do
    timeout 3600 "$build/tests/$part/$program" --gtest_brief=1 || status=$?
  done >"$logs/$part.log" 2>&1
  # Tests that ctest runs once more, with another environment: NAME.tcp.Suite.Test.
  again=$(IFS='|'; echo "${programs[*]}")
  timeout 3600 ctest --test-dir "$build/tests/$part" -R "^($again)\\.[a-z]" --output-on-failure \
    >"$logs/$part.again.log" 2>&1 || status=$?
  # Reports of processes that a test has started are in the logs, too.
  found=$(cat "$logs/$part.log" "$logs/$part.again.log" | grep -cE 'ERROR: AddressSanitizer|runtime error:')
  passed=$(cat "$logs/$part.log" "$logs/$part.again.log" |
    sed -nE 's/.*\[  PASSED  \] ([0-9]+) tests?.*/\1/p; s/^ *[0-9]+\/[0-9]+ Test.* (Passed) .*/1/p' |
    awk '{ sum += $1 } END { print sum + 0 }')
  rows+=("| $part | $passed passed, exit code $status | $found | $built s, $((SECONDS - started)) s | |")
  ((status == 0 && found == 0)) || ((++failures))
done
printf '| part | tests | reports | build, run | |\n|---|---|---|---|---|\n'
printf '%s\n' "${rows[@]}"
exit $((failures > 0))
