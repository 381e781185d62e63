#!/usr/bin/env bash
# Builds what runs on a GPU and packs it with the libraries that another machine may
# lack, so that a machine with a GPU whose time is short only runs it:
#
#   tools/gpu_bundle.sh build/gpu_bundle.tar.xz [ARCH]
#   tools/gpu_bundle.sh build/gpu_python.tar.xz --python PYTHON
#
# ARCH is x86_64, if nothing is said, or aarch64; this machine may be either. There: unpack
# it and call its `run`, which finds libtorch where python3 has it.
#
#   run tests [PART]           every GPU test, or those with that part in their names,
#                              each in a process of its own; bench/gpu/nccl_table.py
#                              makes a table of what those of NCCL print
#   run PROGRAM [ARGUMENT…]    cairn, cairn-cuda, row_kernels_bench, matrix_kernels_bench,
#                              dropped_attention_bench, moe_bench, generate_gpu_bench, plan_gpu_speeds
#
# With --python it packs the Python package instead, for this machine's architecture and a
# Python of PYTHON's version (3.12, say; PYTHON has its headers, torch it need not have), and `cairn`:
#
#   run python [ARGUMENT…]     python3 with `import cairn`; PYTHONPATH=UNPACKED/alias before it
#                              makes `import deepspeed` Cairn, too
#   run python-tests [NAME…]   tests of python/tests, test_gpu if nothing is said
#   run cairn [ARGUMENT…]
set -euo pipefail
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
(($# >= 1)) || usage
mkdir -p "$(dirname "$1")"
archive=$(realpath "$1")
shift
python=
arch=x86_64
if [[ ${1:-} == --python ]]; then
  (($# == 2)) || usage
  python=$2
  arch=$(uname -m)
elif (($#)); then
  (($# == 1)) && [[ $1 != -* ]] || usage
  arch=$1
fi

export CAIRN_GPU=compile
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
triplet=$arch-linux-gnu
if [[ $arch == "$CAIRN_ARCH" ]]; then
  cairn_setup test
  cmake -S "$CAIRN_ROOT" -B "$CAIRN_BUILD_DIR" -DCAIRN_BENCH=ON \
    ${python:+-DCAIRN_PYTHON=ON "-DPython_EXECUTABLE=$python"} >"$CAIRN_BUILD_DIR/configure.log"
  strip=strip
  libraries=/usr/lib/$triplet
else
  source "$CAIRN_ROOT/tools/cross_setup.sh"
  cairn_cross_setup "$arch" -DCAIRN_BENCH=ON
  strip=${triplet/_/-}-strip
  libraries=$CAIRN_SYSROOT/usr/lib/$triplet
fi
if [[ $python ]]; then
  programs=(bin/cairn)
  cairn_build cairn cairn_python_core cairn_python_core_cuda
else
  programs=(bin/cairn bin/cairn-cuda tests/gpu_test bin/row_kernels_bench bin/matrix_kernels_bench bin/dropped_attention_bench bin/moe_bench bin/generate_gpu_bench bin/plan_gpu_speeds)
  cairn_build "${programs[@]##*/}"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder"/{bin,lib}
for program in "${programs[@]}"; do
  "$strip" -o "$folder/${program##*/}" "$CAIRN_BUILD_DIR/$program"
  mv "$folder/${program##*/}" "$folder/bin"
done

# Adds the libraries that a file needs and those that they need. The system's own are
# everywhere, and libtorch's come with libtorch.
add_libraries() { # FILE
  local name
  for name in $(LC_ALL=C readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    [[ $name =~ ^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+|gomp))\.so ]] && continue
    [[ -e $folder/lib/$name || ! -e $libraries/$name ]] && continue
    cp -L "$libraries/$name" "$folder/lib"
    add_libraries "$folder/lib/$name"
  done
}
if [[ $python ]]; then
  cmake --install "$CAIRN_BUILD_DIR" --prefix "$folder/package" --component python --strip >/dev/null
  mkdir -p "$folder"/{alias,python,examples,bench,tests/golden}
  cp -r "$CAIRN_ROOT/python/deepspeed" "$folder/alias"
  cp -r "$CAIRN_ROOT/python/tests" "$folder/python"
  cp -r "$CAIRN_ROOT/tests/golden/moe" "$folder/tests/golden"
  cp -r "$CAIRN_ROOT/examples/python" "$folder/examples"
  cp -r "$CAIRN_ROOT/bench/gpu" "$folder/bench"
  find "$folder" -name __pycache__ -prune -exec rm -rf {} +
fi
for program in "$folder"/bin/* $(find "$folder" -name '_core.*.so'); do
  add_libraries "$program"
done

if [[ $python ]]; then
  cat >"$folder/run" <<'RUN'
#!/usr/bin/env bash
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Only what the machine lacks comes from here: its python3 has libraries of its own.
mkdir -p "$here/lacking"
for library in "$here"/lib/*; do
  [[ $(/sbin/ldconfig -p) == *"${library##*/} "* ]] || ln -sf "$library" "$here/lacking"
done
export LD_LIBRARY_PATH=$here/lacking${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PYTHONPATH=$here/package${PYTHONPATH:+:$PYTHONPATH}
export CAIRN_PROGRAM=$here/bin/cairn
case ${1:-} in
  python) exec python3 "${@:2}" ;;
  python-tests)
    export PYTHONPATH=$PYTHONPATH:$here/alias
    cd "$here/python/tests"
    names=("${@:2}")
    exec python3 -m unittest -v "${names[@]:-test_gpu}"
    ;;
  cairn) exec "$CAIRN_PROGRAM" "${@:2}" ;;
  *) echo "run python [ARGUMENT…] | python-tests [NAME…] | cairn [ARGUMENT…]" >&2 && exit 2 ;;
esac
RUN
else
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
# With NVIDIA's MPS, kernels of several processes run at the same time; without, ranks that wait for
# each other over NCCL wait for their turns on the GPU as well.
if command -v nvidia-cuda-mps-control >/dev/null && [[ ! -e ${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}/control ]]; then
  nvidia-cuda-mps-control -d && trap 'echo quit | nvidia-cuda-mps-control' EXIT
fi
"$here/bin/gpu_test" "--each-in-a-child=*${2:-}*" --jobs=10 --seconds=300 --show-output
RUN
fi
chmod +x "$folder/run"
# The programs share most of what they link, so the dictionary holds all of them.
tar -C "$folder" -c . | xz -T1 --lzma2=preset=6,dict=192MiB >"$archive"
printf '%s: %s MB\n' "$archive" "$(($(stat -c %s "$archive") / 1000000))"
