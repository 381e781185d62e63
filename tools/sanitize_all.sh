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
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CAIRN_GPU=0 CAIRN_PRESET=asan
build=build/asan
logs=$build/sanitized

parts=("$@")
if ((${#parts[@]} == 0)); then
  for list in tests/*/CMakeLists.txt; do
    part=$(basename "$(dirname "$list")")
    grep -q "cairn_test(${part}_test" "$list" && parts+=("$part")
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
  log=$logs/$part.log
  started=$SECONDS
  if ! bash -c 'source tools/setup.sh; cairn_setup test; cairn_build "$@"' - "${part}_test" >"$log" 2>&1; then
    rows+=("| $part | not built | | | see $log |")
    ((++failures))
    continue
  fi
  built=$((SECONDS - started))
  started=$SECONDS
  timeout 3600 "$build/tests/$part/${part}_test" --gtest_brief=1 >"$log" 2>&1
  status=$?
  # Reports of processes that a test has started are in the log, too.
  found=$(grep -cE 'ERROR: AddressSanitizer|runtime error:' "$log")
  passed=$(sed -nE 's/.*\[  PASSED  \] ([0-9]+) tests?.*/\1/p' "$log" | tail -n 1)
  rows+=("| $part | ${passed:-0} passed, exit code $status | $found | $built s, $((SECONDS - started)) s | |")
  ((status == 0 && found == 0)) || ((++failures))
done
printf '| part | tests | reports | build, run | |\n|---|---|---|---|---|\n'
printf '%s\n' "${rows[@]}"
exit $((failures > 0))
