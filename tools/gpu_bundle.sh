#!/usr/bin/env bash
# Builds what runs on a GPU and packs it with the libraries that another machine may
# lack, so that a machine with a GPU whose time is short only runs it:
#
#   tools/gpu_bundle.sh build/gpu_bundle.tar.xz
#
# It works on x86_64 and for x86_64. There: unpack it and call its `run`, which finds
# libtorch where python3 has it.
#
#   run tests [PART]           every GPU test, or those with that part in their names,
#                              each in a process of its own
#   run PROGRAM [ARGUMENT…]    cairn-cuda, row_kernels_bench, dropped_attention_bench, moe_bench, generate_gpu_bench
set -euo pipefail
(($# == 1)) || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[[ $(uname -m) == x86_64 ]] || { echo "gpu_bundle.sh: this machine is no x86_64, and programs for another one are not built here" >&2; exit 1; }
mkdir -p "$(dirname "$1")"
archive=$(realpath "$1")

export CAIRN_GPU=compile
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cairn_setup test
cmake -S "$CAIRN_ROOT" -B "$CAIRN_BUILD_DIR" -DCAIRN_BENCH=ON >"$CAIRN_BUILD_DIR/configure.log"
cairn_build cairn-cuda gpu_test row_kernels_bench dropped_attention_bench moe_bench generate_gpu_bench

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder"/{bin,lib}
for program in bin/cairn-cuda tests/gpu_test bin/row_kernels_bench bin/dropped_attention_bench bin/moe_bench bin/generate_gpu_bench; do
  strip -o "$folder/${program##*/}" "$CAIRN_BUILD_DIR/$program"
  mv "$folder/${program##*/}" "$folder/bin"
done
# The system's own libraries are everywhere, and libtorch's come with libtorch.
ldd "$folder"/bin/* | awk '$2 == "=>" && $3 ~ "^(/usr)?/lib/" {print $3}' | sort -u |
  { grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libutil|libgcc_s|libstdc\+\+|libgomp)\.so' || true; } |
  xargs -r cp -Lt "$folder/lib"

cat >"$folder/run" <<'RUN'
#!/usr/bin/env bash
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
torch=$(python3 -c 'import torch; print(torch.__path__[0])')
LD_LIBRARY_PATH=$(printf '%s:' "$here/lib" "$torch/lib" "${torch%/*}"/nvidia/*/lib)${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH
if [[ ${1:-} != tests ]]; then
  exec "$here/bin/${1:?run tests [PART] | PROGRAM [ARGUMENT…]}" "${@:2}"
fi
exec "$here/bin/gpu_test" "--each-in-a-child=*${2:-}*" --jobs=4 --seconds=300
RUN
chmod +x "$folder/run"
tar -C "$folder" -cJf "$archive" .
printf '%s: %s MB\n' "$archive" "$(($(stat -c %s "$archive") / 1000000))"
