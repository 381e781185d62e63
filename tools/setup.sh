# Sourced by ./cairn and ./test: gets this machine to the point where Cairn is
# built. Checks everything first; when something is missing that it cannot get, it
# says so in one message and has changed nothing.
#
#   cairn_setup build|test      (test also needs the packages of the tests)
#   cairn_build [TARGET…]
#
# Sets CAIRN_BUILD_DIR. Settings, all optional:
#   CAIRN_GPU         1: build for NVIDIA GPUs and fetch the libraries that a GPU
#                     program loads (default where there is a GPU); 0: do not;
#                     compile: build for GPUs on a machine that has none
#   CAIRN_PRESET      what to build, a preset of CMakePresets.json (default release)
#   CAIRN_CACHE_DIR   where unpacked wheels are kept (default ~/.cache/cairn)
#   CAIRN_TORCH_DIR   a folder that contains torch/ already; nothing is downloaded
#
# tools/cross_setup.sh builds on it for another architecture, CAIRN_ARCH.

CAIRN_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CAIRN_PINS=$CAIRN_ROOT/dependencies.txt

CAIRN_ARCH=$(uname -m)
CAIRN_GPU=${CAIRN_GPU:-$([[ -e /dev/nvidiactl ]] && echo 1 || echo 0)}
CAIRN_PRESET=${CAIRN_PRESET:-release}
CAIRN_BUILD_DIR=$CAIRN_ROOT/build/$CAIRN_PRESET

_say() { printf 'cairn: %s\n' "$*" >&2; }

# Ends with one message: a headline, then one indented line per thing to do.
_stop() {
  printf 'cairn: %s\n' "$1" >&2
  shift
  (($#)) && printf '  %s\n' "$@" >&2
  exit 1
}

_version_at_least() { # HAVE WANT
  [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

_present() { # PROBE: a command, a command line, or a header below an include folder
  if [[ $1 == *" "* ]]; then
    $1 >/dev/null 2>&1
    return
  fi
  if [[ $1 == *.h || $1 == *.hpp ]]; then
    local folder
    for folder in /usr/include /usr/local/include "/usr/include/$(uname -m)-linux-gnu" ${CPATH:+${CPATH//:/ }}; do
      [[ -e $folder/$1 ]] && return 0
    done
    return 1
  fi
  command -v "$1" >/dev/null
}

_pinned() { awk -v kind="$1" '$1 == kind' "$CAIRN_PINS"; }

_pins_hash() { sha256sum "$CAIRN_PINS" | cut -c 1-16; }
_wheels_hash() { grep -E '^(wheel|gpu|nvcc) ' "$CAIRN_PINS" | sha256sum | cut -c 1-16; }

# Prints "PACKAGE LEAST-VERSION" of what is not there, for the kinds named.
_missing_packages() {
  local kind package least probe
  while read -r _ kind package least probe; do
    [[ " $* " == *" $kind "* ]] && ! _present "$probe" && echo "$package $least"
  done < <(_pinned deb)
  return 0
}

_check_tool_versions() {
  local tool least have
  for tool in g++ cmake; do
    command -v $tool >/dev/null || continue
    [[ $tool == g++ && ${CXX:-g++} != *g++* ]] && continue # another compiler: CMake will say
    least=$(_pinned deb | awk -v p="$tool" '$3 == p { print $4 }')
    if [[ $tool == g++ ]]; then
      have=$(${CXX:-g++} -dumpfullversion)
      least=12.0 # any g++ 12; Debian's 12.2 is the one tested
    else
      have=$(cmake --version | sed -n '1s/.*version //p')
    fi
    _version_at_least "$have" "$least" || echo "$tool $least or newer (found $have)"
  done
}

_install_packages() { # [required packages as "NAME LEAST" lines in $1] [optional in $2]
  local required=$1 optional=$2 wanted=() todo=() package least have runner=()
  while read -r package least; do
    [[ $package ]] && todo+=("$package >= $least")
  done <<<"$required"

  if ! command -v apt-get >/dev/null; then
    [[ -z $required ]] && return
    _stop "this machine has no apt-get; install these with its own package manager, then try again:" "${todo[@]}"
  fi
  if ((EUID != 0)); then
    if sudo -n true 2>/dev/null; then
      runner=(sudo -n)
    else
      [[ -z $required ]] && return
      _stop "packages are missing and installing needs root; run this, then try again:" \
        "sudo apt-get install $(awk '{ printf "%s ", $1 }' <<<"$required")"
    fi
  fi

  _say "[1/4] Debian packages: $(awk '{ printf "%s ", $1 }' <<<"$required"$'\n'"$optional")"
  local log
  log=$(mktemp)
  if ! "${runner[@]}" apt-get update -qq >"$log" 2>&1; then
    [[ -z $required ]] && return
    _stop "apt-get update failed ($(tail -n 1 "$log")); with a network, install:" "${todo[@]}"
  fi
  while read -r package least; do
    [[ $package ]] || continue
    have=$(apt-cache policy "$package" | sed -n 's/ *Candidate: //p')
    if [[ -z $have || $have == "(none)" ]] || ! dpkg --compare-versions "$have" ge "$least"; then
      [[ $required == *"$package $least"* ]] && _stop "apt offers no $package >= $least (candidate: ${have:-none}); install:" "${todo[@]}"
      continue
    fi
    wanted+=("$package")
  done <<<"$required"$'\n'"$optional"
  ((${#wanted[@]})) || return 0
  # Download everything before anything is installed: without a network nothing has changed.
  local install=("${runner[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends)
  if ! "${install[@]}" --download-only "${wanted[@]}" >"$log" 2>&1 ||
    ! "${install[@]}" "${wanted[@]}" >"$log" 2>&1; then
    [[ -z $required ]] && return # goes on without
    _stop "apt-get install failed ($(grep -m 1 '^E:' "$log" || tail -n 1 "$log")); install:" "${todo[@]}"
  fi
  rm -f "$log"
}

_wheel_requirements() { # pip's lines for $CAIRN_ARCH, of the kinds named
  local kind
  for kind in "$@"; do
    _pinned "$kind" | awk -v arch="$CAIRN_ARCH" '$4 == arch { print $2 "==" $3 " --hash=sha256:" $5 }'
  done
}

_in_toolkit() { # FILE: whether a CUDA toolkit is here that has it
  local toolkit
  for toolkit in ${CUDA_HOME:-} ${CUDA_PATH:-} /usr/local/cuda; do
    [[ -e $toolkit/$1 ]] && return
  done
  return 1
}

# The kinds of wheels that this machine needs. To compile, a CUDA toolkit serves too;
# what compiles for another architecture runs on this one.
_wheel_kinds() {
  echo wheel
  [[ $CAIRN_GPU == 0 ]] && return
  [[ $CAIRN_GPU == 1 ]] || ! _in_toolkit include/nccl.h && echo gpu
  [[ $CAIRN_ARCH != "$(uname -m)" ]] || _present "nvcc --version" || _in_toolkit bin/nvcc || echo nvcc
}

# Unpacks the pinned wheels into the cache, once per content of dependencies.txt.
# A wheel is a zip: one and the same file serves whatever Python is installed. All
# kinds share one folder, so that objects compiled before a GPU was there still fit;
# a file .KIND in it says that a kind is whole.
_cache() { echo "${CAIRN_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:?set it, or CAIRN_CACHE_DIR}/.cache}/cairn}"; }
_fetch_wheels() {
  local cache kind
  cache=$(_cache)
  CAIRN_TORCH_DIR=$cache/wheels-$(_wheels_hash)
  [[ $CAIRN_ARCH == "$(uname -m)" ]] || CAIRN_TORCH_DIR+=-$CAIRN_ARCH
  for kind in $(_wheel_kinds); do
    [[ -e $CAIRN_TORCH_DIR/.$kind ]] || _fetch_kind "$cache" "$kind"
  done
}

_fetch_kind() { # CACHE KIND
  local cache=$1 kind=$2 requirements
  requirements=$(_wheel_requirements "$kind")
  [[ $requirements ]] || _stop "no libtorch wheel is pinned for $CAIRN_ARCH; x86_64 and aarch64 are supported"

  mkdir -p "$cache"
  # Two clones may come here at once: the second waits and finds the folder made.
  exec {wheel_lock}>"$cache/.lock"
  flock "$wheel_lock"
  if [[ ! -e $CAIRN_TORCH_DIR/.$kind ]]; then
    _say "[2/4] libtorch ($kind): $(awk '{ printf "%s ", $1 }' <<<"$requirements")"
    local work platforms=() minor progress=off
    [[ -t 2 ]] && progress=on
    work=$(mktemp -d "$cache/.unpack.XXXXXX")
    trap "rm -rf $(printf %q "$work")" EXIT # expanded now: `work` is local
    for minor in {35..5}; do
      platforms+=(--platform "manylinux_2_${minor}_$CAIRN_ARCH")
    done
    platforms+=(--platform "manylinux2014_$CAIRN_ARCH")
    echo "$requirements" >"$work/requirements.txt"
    if ! python3 -m pip download --quiet --progress-bar $progress --disable-pip-version-check --no-deps \
      --only-binary=:all: --python-version 3.12 "${platforms[@]}" --require-hashes \
      --dest "$work/wheels" -r "$work/requirements.txt" 2>"$work/log" >&2; then
      local reason
      reason=$(grep '^ERROR: ..*[^:]$' "$work/log" | head -n 1 | grep . || tail -n 1 "$work/log")
      rm -rf "$work" "$cache/.lock"
      rmdir "$cache" "$(dirname "$cache")" 2>/dev/null || true # only if empty
      _stop "the pinned wheels could not be downloaded ($reason); with a network or a PyPI mirror try again, or set CAIRN_TORCH_DIR to a folder that contains torch/ of these:" \
        $(awk '{ print $1 }' <<<"$requirements")
    fi
    local wheel
    for wheel in "$work"/wheels/*.whl; do
      unzip -q -o "$wheel" -d "$CAIRN_TORCH_DIR"
    done
    # The wheels say lib, and their nvcc looks into lib64.
    [[ $kind == nvcc ]] && ln -sfn lib "$CAIRN_TORCH_DIR/nvidia/cu13/lib64"
    touch "$CAIRN_TORCH_DIR/.$kind"
    rm -rf "$work"
    trap - EXIT
  fi
  exec {wheel_lock}>&-
}

# What was set up before is still there: the same pins, the GPU parts where they are
# wanted, and the libtorch that CMake was told of.
_is_set_up() { # build|test
  local stamp=$CAIRN_BUILD_DIR/.setup-$1
  [[ -e $stamp && -e $CAIRN_BUILD_DIR/build.ninja && -d $(cairn_torch_dir)/torch ]] || return
  [[ $(<"$stamp") == "$(_setup_stamp)" || ($CAIRN_GPU == 0 && $(<"$stamp") == "$(_pins_hash) "*) ]]
}

# The program that computes on this machine.
cairn_torch_program() { [[ $CAIRN_GPU == 1 ]] && echo cairn-cuda || echo cairn-torch; }

# The folder with torch/ and nvidia/ that the build uses.
cairn_torch_dir() { sed -n 's/^CAIRN_TORCH_DIR:[A-Z]*=//p' "$CAIRN_BUILD_DIR/CMakeCache.txt"; }

_setup_stamp() { echo "$(_pins_hash) gpu=$CAIRN_GPU"; }

cairn_setup() { # build|test
  local stamp=$CAIRN_BUILD_DIR/.setup-$1
  _is_set_up "$1" || _is_set_up test && return
  local kinds=(build) extras=(speed) required optional old
  [[ $1 == test ]] && kinds+=(test) && extras+=(look)
  old=$(_check_tool_versions)
  required=$(_missing_packages "${kinds[@]}")
  optional=$(_missing_packages "${extras[@]}")
  if [[ $old ]]; then
    local lines
    mapfile -t lines <<<"$old$(sed '/./!d; s/^/\n/; s/ / >= /' <<<"$required")"
    _stop "tools here are too old; install:" "${lines[@]}"
  fi
  # The download first where it can be done already: if it fails, nothing was installed.
  if [[ -z ${CAIRN_TORCH_DIR:-} ]] && _present "python3 -m pip --version" && _present unzip; then
    _fetch_wheels
  fi
  [[ $required || $optional ]] && _install_packages "$required" "$optional"
  [[ ${CAIRN_TORCH_DIR:-} ]] || _fetch_wheels

  _say "[3/4] configuring $CAIRN_PRESET"
  mkdir -p "$CAIRN_BUILD_DIR"
  _lock_build_dir
  if ! cmake -S "$CAIRN_ROOT" --preset "$CAIRN_PRESET" -DCAIRN_TORCH_DIR="$CAIRN_TORCH_DIR" \
    -DCAIRN_CUDA="$([[ $CAIRN_GPU == 0 ]] && echo OFF || echo ON)" \
    -DCAIRN_TESTS="$([[ $1 == test || -e $CAIRN_BUILD_DIR/.setup-test ]] && echo ON || echo OFF)" \
    >"$CAIRN_BUILD_DIR/configure.log" 2>&1; then
    cat "$CAIRN_BUILD_DIR/configure.log" >&2
    _stop "CMake failed (above, and in $CAIRN_BUILD_DIR/configure.log)"
  fi
  _setup_stamp >"$stamp"
  _unlock_build_dir
}

# Two calls must not configure or build in one folder at a time.
_lock_build_dir() {
  exec {build_lock}>"$CAIRN_BUILD_DIR/.lock"
  if ! flock --nonblock "$build_lock"; then
    _say "another build is under way in $CAIRN_BUILD_DIR; waiting for it"
    flock "$build_lock"
  fi
}
_unlock_build_dir() { exec {build_lock}>&-; }

# A question, which needs nothing but a program: --version, COMMAND --help, config, info.
cairn_asks() { # ARGUMENT…
  [[ " --version config info " == *" $1 "* || " $* " == *" --help "* || " $* " == *" -h "* ]]
}

# There is a program, and another call has the lock to build a newer one.
cairn_builds_elsewhere() {
  [[ -x $CAIRN_BUILD_DIR/bin/cairn && -e $CAIRN_BUILD_DIR/.lock ]] &&
    ! flock --nonblock "$CAIRN_BUILD_DIR/.lock" true
}

_is_built() { # [TARGET…]: asked without the lock, for ninja only looks
  [[ $(ninja -C "$CAIRN_BUILD_DIR" -n "$@" 2>/dev/null) == *"no work to do"* ]]
}

cairn_build() { # [TARGET…]
  _is_built "$@" && return
  _lock_build_dir
  local log=$CAIRN_BUILD_DIR/build.log
  [[ -t 2 ]] || _say "[4/4] building (what the compiler says: $log)"
  local code=0
  trap : INT # so that Ctrl-C ends the build first
  (cd "$CAIRN_BUILD_DIR" && "$CAIRN_ROOT/tools/build_progress.py" "$log" "$@" {build_lock}>&-) || code=$?
  trap - INT
  if ((code == 130)); then
    _say "stopped; what is built is kept, and the same command goes on from there"
    exit 130
  fi
  ((code == 0)) || _stop "the build failed (above; everything is in $log)"
  _unlock_build_dir
}
