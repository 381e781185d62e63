# nvcc, for the kernels under src/kernels/cuda. Sets CAIRN_CUDA_KERNELS: without a
# compiler for them the other GPU parts (NCCL, libtorch's own kernels) still build, and
# what needs ours says at run time that it is not there.
set(CAIRN_CUDA_KERNELS OFF)
if(CAIRN_CUDA)
  find_program(CAIRN_NVCC nvcc HINTS $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda PATH_SUFFIXES bin)
  if(CAIRN_NVCC)
    set(CMAKE_CUDA_COMPILER ${CAIRN_NVCC})
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      # Ampere and Hopper; newer ones translate Hopper's at first use.
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
    if(NOT CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
      set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER}) # it links, too
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17) # CMake 3.25 does not know that nvcc can do more
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared) # libtorch's too
    set(CAIRN_CUDA_KERNELS ON)
  else()
    message(WARNING "no nvcc: Cairn's own GPU kernels are left out. Install a CUDA 13 toolkit, "
      "or name its place in CUDA_HOME.")
  endif()
endif()
