# Sourced by the run.sh of a folder, which sets the groups there are: reads the
# command line, configures the build and runs the harness of the peers.
#
#   beside_peers_options "$@"    sets here, root, build, quick, rounds, groups,
#                                python; prints the head of the script for --help
#   beside_peers_build TARGET…
#   beside_peers_run DATA        with DATA/rows.json, to DATA/results.jsonl
set -euo pipefail

beside_peers_options() {
  here=$(cd "$(dirname "$0")" && pwd)
  root=$(cd "$here/../.." && pwd)
  build=$root/build/bench quick=0 rounds=1
  local chosen=()
  while (($#)); do
    case $1 in
      --quick) quick=1 ;;
      --rounds) rounds=$2; shift ;;
      --build) build=$(mkdir -p "$2" && cd "$2" && pwd); shift ;;
      -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
      -*) echo "$1: unknown flag; see $0 --help" >&2; exit 2 ;;
      *) chosen+=("$1") ;;
    esac
    shift
  done
  ((${#chosen[@]})) && groups=("${chosen[@]}")
  : "${PEERS:?the folder of the harness of the peers; see $0 --help}"
  : "${PEERS_HOME:?what the setup.sh of the harness made; see $0 --help}"
  export PEERS_HOME
  python=$PEERS_HOME/venv/bin/python
}

beside_peers_build() {
  [[ -e $build/CMakeCache.txt ]] ||
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCAIRN_TESTS=OFF \
      ${CAIRN_TORCH_DIR:+-DCAIRN_TORCH_DIR="$CAIRN_TORCH_DIR"} >&2
  cmake -DCAIRN_BENCH=ON "$build" >/dev/null
  cmake --build "$build" --target "$@" >&2
}

beside_peers_run() {
  local options=(--rounds "$rounds" --extra "$1/rows.json")
  ((quick)) && options+=(--quick)
  "$PEERS/run.sh" "${options[@]}" "${groups[@]}" | tee "$1/results.jsonl" >&2
  "$python" "$here/table.py" "$1/results.jsonl"
}
