#!/usr/bin/env bash
# Unpacks Debian packages into a folder without installing them, for building on a
# machine that has no network and lacks some of dependencies.txt:
#
#   tools/fetch_packages.sh ARCHITECTURE FOLDER PACKAGE…
#   tools/fetch_packages.sh amd64 build/packages libyaml-cpp-dev libyaml-cpp0.7
#
# Then, over there: cmake --preset release -DCMAKE_PREFIX_PATH=$PWD/build/packages/usr
# The system's own package lists and architectures stay as they are.
set -euo pipefail
(($# >= 3)) || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
architecture=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
packages=("${@:3}")
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
touch "$state/status"
apt=(apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture"
  -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status"
  -o Dir::Cache="$state/cache" -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd "$state" && "${apt[@]}" download "${packages[@]}")
for package in "$state"/*.deb; do
  dpkg -x "$package" "$folder"
done
du -sh "$folder"
