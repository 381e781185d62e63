#!/usr/bin/env bash
# install.sh PREFIX: builds Cairn when needed and installs it: programs, libraries,
# headers. PREFIX/packages lists the Debian packages that its programs load, for a
# machine that gets PREFIX and the wheels' folder (CAIRN_CACHE_DIR) and nothing to
# build with. The Dockerfile uses it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
prefix=${1:?install.sh PREFIX}
cairn_setup build
cairn_build cairn cairn-torch $([[ $CAIRN_GPU == 0 ]] || echo cairn-cuda)
mkdir -p "$prefix"
cmake --install "$CAIRN_BUILD_DIR" --prefix "$prefix" >"$CAIRN_BUILD_DIR/install.log"
[[ $CAIRN_GPU == 1 ]] || rm -f "$prefix/bin/cairn-cuda" # built to be looked at: its libraries are not here
"$CAIRN_ROOT/tools/runtime_packages.sh" "${CAIRN_CACHE_DIR:-$HOME/.cache/cairn}" "$prefix"/bin/* >"$prefix/packages"
