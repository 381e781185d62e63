#!/usr/bin/env bash
# check_image.sh [--built BUILD] [--base IMAGE] [--keep FOLDER]
# Builds the image of the Dockerfile without Docker, and starts its programs. Needs root,
# Debian's buildah and debootstrap, and a network; takes as long as a first build of Cairn.
#   --built BUILD   compiles nothing: takes the programs of that build folder (such as
#                   build/release). The rest is as in the Dockerfile: packages and wheels to build
#                   with, CMake's configuration, the packages of the image.
#   --base IMAGE    in place of debian:12, which is made by debootstrap if no registry has it
#   --keep FOLDER   where the images stay; otherwise they are removed
# Ends with 77 where something that it needs is missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
built="" base="" keep=""
while (($#)); do
  case $1 in
    --built) built=$(realpath "$2") ;;
    --base) base=$2 ;;
    --keep) keep=$2 ;;
    -h | --help) sed -n '2,/^set/{/^set/d; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}"; exit ;;
    *) echo "check_image.sh: $1 is no flag; see --help" >&2; exit 2 ;;
  esac
  shift 2
done
for program in buildah debootstrap git python3; do
  command -v $program >/dev/null || { echo "there is no $program here"; exit 77; }
done
((EUID == 0)) || { echo "only root can make the folders of an image"; exit 77; }

work=$(mktemp -d)
images=${keep:-$work/images}
mkdir -p "$images"
images=$(realpath "$images")
b() { buildah --root "$images/root" --runroot "$images/run" "$@"; }
clean() {
  b unmount --all >/dev/null 2>&1 || true
  [[ $keep ]] || b rm --all >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap clean EXIT

if [[ ! $base ]]; then
  base=localhost/debian:12
  if ! b inspect --type image $base >/dev/null 2>&1; then
    debootstrap --variant=minbase bookworm "$work/debian" >"$work/debootstrap.log" ||
      { tail "$work/debootstrap.log"; exit 1; }
    # The image is built with this machine's ways to reach packages.
    cp -L /etc/apt/sources.list.d/debian.sources "$work/debian/etc/apt/sources.list.d/" 2>/dev/null &&
      rm -f "$work/debian/etc/apt/sources.list" || true
    container=$(b from scratch)
    b add --quiet "$container" "$work/debian" / >/dev/null
    b commit --quiet --rm "$container" $base >/dev/null
    rm -rf "$work/debian"
  fi
fi

# As `COPY . /cairn` of a fresh clone.
context=$work/context
mkdir "$context"
git -C "$root" ls-files -z --cached --others --exclude-standard | (cd "$root" && xargs -0 ls -d 2>/dev/null | tar c -T -) | tar x -C "$context"
file=$context/Dockerfile
if [[ $built ]]; then
  cmake --install "$built" --prefix "$context/built" >"$work/install.log"
  rm -f "$context"/built/bin/cairn-cuda
  # The programs look for the wheels where the build had them; the image has them elsewhere.
  wheels=$(sed -n 's/^CAIRN_TORCH_DIR:[A-Z]*=//p' "$built/CMakeCache.txt")
  had=$(dirname "$wheels")
  sed -i "s|^RUN tools/install.sh /opt/cairn\$|RUN bash -c 'set -e; source tools/setup.sh; cairn_setup build; cp -a built/. /opt/cairn/; mkdir -p $(dirname "$had"); ln -s /opt/cairn/cache $had; tools/runtime_packages.sh /opt/cairn /opt/cairn/bin/* >/opt/cairn/packages'|; s|^ENTRYPOINT|RUN mkdir -p $(dirname "$had") \&\& ln -s /opt/cairn/cache $had\nENTRYPOINT|" "$file"
  grep -q built/. "$file" || { echo "the Dockerfile does not run tools/install.sh as it did"; exit 1; }
fi

options=(--isolation chroot --build-arg "BASE=$base" --tag localhost/cairn)
for variable in http_proxy https_proxy no_proxy; do
  [[ ${!variable:-} ]] && options+=(--build-arg "$variable=${!variable}")
done
# This machine's ways to packages, while the image is built.
{
  echo "[global]"
  [[ ${PIP_INDEX_URL:-} ]] && echo "index-url = $PIP_INDEX_URL"
  python3 -m pip config list 2>/dev/null | sed -n "s/^global\.\(index-url\|extra-index-url\|proxy\|trusted-host\)='\(.*\)'$/\1 = \2/p"
  [[ -e /etc/ssl/certs/ca-certificates.crt ]] && echo "cert = /run/machine.crt"
} | awk '!seen[$1]++' >"$work/pip.conf"
options+=(--volume "$work/pip.conf:/etc/pip.conf:ro")
[[ -e /etc/ssl/certs/ca-certificates.crt ]] && options+=(--volume /etc/ssl/certs/ca-certificates.crt:/run/machine.crt:ro)
[[ -d /etc/apt/apt.conf.d ]] && options+=(--volume /etc/apt/apt.conf.d:/etc/apt/apt.conf.d:ro)
b build "${options[@]}" --file "$file" "$context"

# What the image promises: its entry point, its programs, the launcher's names, ssh for DeepSpeedJobs.
container=$(b from localhost/cairn)
run() { b run --isolation chroot "$container" -- "$@"; }
[[ $(b inspect --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}' "$container") == "[cairn] [--help]" ]]
run cairn --version
run cairn info
run cairn launch --num_gpus 2 pretrain gpt --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 16 \
  --max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 2 --train-iters 2 --lr 1e-3 --mock-data \
  --vocab-size 50 --log-interval 1 | tee "$work/training.log" | grep "lm loss:"
[[ $(grep -c "lm loss:" "$work/training.log") == 2 ]]
run deepspeed --num_gpus 2 --no_local_rank sh -c 'echo "rank $RANK of $WORLD_SIZE"' | grep -c "rank . of 2"
run sh -c 'ssh -V && test -x /usr/sbin/sshd && test -s /etc/ssl/certs/ca-certificates.crt && test ! -e /cairn'
echo "the image: $(b images --format '{{.Size}}' localhost/cairn), $(run sh -c 'wc -l </opt/cairn/packages') packages of libraries"
