# nvcc, for the kernels under src/kernels/cuda: a CUDA toolkit's, or that of the wheels
# which tools/setup.sh unpacks beside libtorch where there is no toolkit.
if(CAIRN_CUDA)
  find_program(CAIRN_NVCC nvcc
    HINTS $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda ${CAIRN_TORCH_DIR}/nvidia/cu13 PATH_SUFFIXES bin)
  if(NOT CAIRN_NVCC)
    message(FATAL_ERROR "No nvcc was found, and the GPU parts need it. Run ./cairn with CAIRN_GPU=1 (it fetches "
      "the pinned compiler), or install a CUDA 13 toolkit, or name its place in CUDA_HOME.")
  endif()
  set(CMAKE_CUDA_COMPILER ${CAIRN_NVCC})
  if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    # Ampere and Hopper; newer ones translate Hopper's at first use.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  if(NOT CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER}) # it links, too
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17) # CMake 3.25 does not know that nvcc can do more
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  # Kernels call constexpr functions that the CPU shares, such as Philox.
  set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} --expt-relaxed-constexpr")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared) # libtorch's too
endif()
