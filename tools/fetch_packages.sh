#!/usr/bin/env bash
# Unpacks Debian packages into a folder without installing them, for building on a
# machine that has no network and lacks some of dependencies.txt:
#
#   tools/fetch_packages.sh ARCHITECTURE FOLDER [PACKAGE…]
#   tools/fetch_packages.sh amd64 build/packages
#
# Without a PACKAGE it takes the libraries that dependencies.txt names. What they
# depend on comes along, except for the C and C++ libraries. Then, over there: cmake --preset release -DCMAKE_PREFIX_PATH=$PWD/build/packages/usr
# The system's own package lists and architectures stay as they are.
set -euo pipefail
(($# >= 2)) || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
architecture=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
packages=("${@:3}")
if ((!${#packages[@]})); then
  mapfile -t packages < <(awk '$1 == "deb" && $3 ~ /^(lib|zlib)/ {print $3}' "$(dirname "$0")/../dependencies.txt")
fi
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
touch "$state/status"
apt=(apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture"
  -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status"
  -o Dir::Cache="$state/cache" -o APT::Sandbox::User=root)
"${apt[@]}" update
options=("${apt[@]:2}")
mapfile -t packages < <(apt-cache "${options[@]}" depends --recurse --no-recommends --no-suggests \
  --no-conflicts --no-breaks --no-replaces --no-enhances "${packages[@]}" |
  grep -E '^(lib|zlib)' | grep -vE '^lib(c6|c-dev|c-bin|stdc|gcc|crypt1|crypt-dev|asan|tsan|ubsan|gomp|itm|lsan|quadmath|cc1|atomic|hwasan)' | sort -u)
(cd "$state" && "${apt[@]}" download "${packages[@]}")
for package in "$state"/*.deb; do
  dpkg -x "$package" "$folder"
done
# Only what compiling and linking need, and links that lead to the folder itself.
rm -rf "$folder"/usr/share "$folder"/usr/bin "$folder"/usr/sbin "$folder"/etc "$folder"/var
find "$folder" -name '*.a' | while read -r archive; do
  [[ ! -e ${archive%.a}.so ]] || rm "$archive"
done
find "$folder" -type l -lname '/*' | while read -r link; do
  ln -sfr "$folder$(readlink "$link")" "$link"
done
du -sh "$folder"
