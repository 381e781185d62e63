# Sourced after setup.sh, to build for an architecture that is not this machine's:
#
#   cairn_cross_setup ARCH [CMAKE-ARGUMENT…]     ARCH: x86_64 or aarch64
#
# Fetches what this machine needs to compile, Debian's cross compiler, and that architecture's
# libtorch and Debian packages. The packages are unpacked into a folder and not installed.
# Sets CAIRN_BUILD_DIR.

# apt as it would be on a machine of that architecture on which nothing is installed.
_cross_apt() { # DEBIAN-ARCH FOLDER ARGUMENT…
  apt-get -qq -o APT::Architecture="$1" -o APT::Architectures="$1" -o Dir::State="$2" \
    -o Dir::State::status="$2/status" -o Dir::Cache="$2/cache" -o Debug::NoLocking=1 "${@:3}"
}

_cross_libraries() { _pinned deb | awk '($2 == "build" || $2 == "test") && $3 ~ /-dev$/ { print $3 }'; }

# Unpacks the packages where CAIRN_SYSROOT says, once per content of dependencies.txt.
_fetch_sysroot() { # DEBIAN-ARCH
  CAIRN_SYSROOT=$(_cache)/packages-$(_pins_hash)-$CAIRN_ARCH
  [[ -e $CAIRN_SYSROOT/.whole ]] && return
  _say "Debian packages of $CAIRN_ARCH"
  local work package reason
  work=$(mktemp -d "$(_cache)/.unpack.XXXXXX")
  trap "rm -rf $(printf %q "$work")" EXIT # expanded now: `work` is local
  mkdir -p "$work"/lists/partial "$work"/cache/archives/partial "$work"/root/usr/lib
  : >"$work/status"
  # Where apt gives up its rights to download, it must still be able to write there.
  chmod -R a+rX "$work"
  if ! _cross_apt "$1" "$work" update >"$work/log" 2>&1 ||
    ! _cross_apt "$1" "$work" install --yes --no-install-recommends --download-only \
      $(_cross_libraries) >"$work/log" 2>&1; then
    reason=$(grep -m 1 '^E:' "$work/log" || tail -n 1 "$work/log")
    _stop "the packages of $CAIRN_ARCH could not be fetched ($reason)"
  fi
  ln -s usr/lib "$work/root/lib"
  for package in "$work"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$work/root"
  done
  # Links from the root of that machine.
  find "$work/root" -type l -lname '/*' -print0 |
    while IFS= read -r -d '' link; do ln -sfn "$CAIRN_SYSROOT$(readlink "$link")" "$link"; done
  touch "$work/root/.whole"
  rm -rf "$CAIRN_SYSROOT"
  mv "$work/root" "$CAIRN_SYSROOT"
  rm -rf "$work"
  trap - EXIT
}

cairn_cross_setup() { # ARCH [CMAKE-ARGUMENT…]
  local debian_arch compiler nvcc
  case $1 in
    x86_64) debian_arch=amd64 ;;
    aarch64) debian_arch=arm64 ;;
    *) _stop "programs for $1 cannot be built; x86_64 and aarch64 are supported" ;;
  esac
  command -v apt-get >/dev/null ||
    _stop "building for another architecture needs Debian's packages, and this machine has no apt-get"
  cairn_setup test
  nvcc=$(cairn_torch_dir)/nvidia/cu13/bin/nvcc
  [[ -e $nvcc ]] || nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  compiler=${1/_/-}-linux-gnu-g++-12
  command -v "$compiler" >/dev/null || _install_packages "g++-12-${1/_/-}-linux-gnu 12.2" ""

  CAIRN_ARCH=$1
  _fetch_wheels
  _fetch_sysroot "$debian_arch"
  CAIRN_BUILD_DIR=$CAIRN_ROOT/build/$CAIRN_PRESET-$CAIRN_ARCH
  _say "configuring $CAIRN_PRESET for $CAIRN_ARCH"
  mkdir -p "$CAIRN_BUILD_DIR"
  cmake -S "$CAIRN_ROOT" --preset "$CAIRN_PRESET" -B "$CAIRN_BUILD_DIR" \
    -DCMAKE_TOOLCHAIN_FILE="$CAIRN_ROOT/cmake/CairnCross.cmake" -DCAIRN_ARCH="$CAIRN_ARCH" \
    -DCAIRN_SYSROOT="$CAIRN_SYSROOT" -DCAIRN_TORCH_DIR="$CAIRN_TORCH_DIR" \
    -DCAIRN_NVCC="$nvcc" -DCAIRN_CUDA=ON "${@:2}" >"$CAIRN_BUILD_DIR/configure.log" 2>&1 ||
    { cat "$CAIRN_BUILD_DIR/configure.log" >&2; _stop "CMake failed (above, and in $CAIRN_BUILD_DIR/configure.log)"; }
}
