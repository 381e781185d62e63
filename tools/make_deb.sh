#!/usr/bin/env bash
# make_deb.sh [FOLDER]: a Debian package with the program `cairn`, in FOLDER (default:
# dist). It installs to /opt/cairn, brings libtorch's CPU half along, and puts `cairn`
# on the PATH: `apt install ./cairn_….deb`.
set -euo pipefail
export CAIRN_GPU=0 # GPU libraries are gigabytes: pip has them, and tools/make_wheel.sh uses those
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
dist=$(mkdir -p "${1:-$CAIRN_ROOT/dist}" && cd "${1:-$CAIRN_ROOT/dist}" && pwd)
cairn_setup build
cairn_build cairn cairn-torch
cpack --config "$CAIRN_BUILD_DIR/CPackConfig.cmake" -B "$dist" -G DEB >"$CAIRN_BUILD_DIR/cpack.log"
rm -rf "$dist/_CPack_Packages"
ls "$dist"/cairn_*.deb
