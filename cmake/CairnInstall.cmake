# `cmake --install` gives a package for find_package(cairn): the libraries, the
# public headers, both programs, and CairnTorch.cmake, which finds the same
# libtorch on the consumer's side.
include(CMakePackageConfigHelpers)

add_library(cairn_all INTERFACE)
add_library(cairn::cairn ALIAS cairn_all)
set_target_properties(cairn_all PROPERTIES EXPORT_NAME cairn)
target_link_libraries(cairn_all INTERFACE cairn_base cairn_config cairn_data cairn_data_loading cairn_data_tensors cairn_distributed cairn_engine cairn_generate cairn_io cairn_model cairn_models cairn_monitor cairn_nn cairn_optim cairn_pipeline cairn_plan cairn_text)
# A program that uses the library computes on GPUs where it can.
if(CAIRN_CUDA_RUNS)
  target_link_libraries(cairn_all INTERFACE cairn_gpu)
endif()
target_sources(cairn_all INTERFACE FILE_SET HEADERS
  BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${PROJECT_SOURCE_DIR}/include/cairn/cairn.h)
install(TARGETS cairn_all EXPORT cairn FILE_SET HEADERS)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)
install(EXPORT cairn NAMESPACE cairn:: DESTINATION ${package_dir} FILE cairnTargets.cmake)
configure_package_config_file(cmake/cairnConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cairnConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    ${PROJECT_BINARY_DIR}/cairnConfig.cmake
    ${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake
    cmake/CairnLibraries.cmake
    cmake/CairnTorch.cmake
  DESTINATION ${package_dir})

# A Debian package of the programs, by CPack: they bring libtorch's CPU half along,
# which Debian does not have. `cpack --config build/release/CPackConfig.cmake`
file(GLOB _libtorch
  ${CAIRN_TORCH_DIR}/torch/lib/libc10.so ${CAIRN_TORCH_DIR}/torch/lib/libtorch_cpu.so
  ${CAIRN_TORCH_DIR}/torch/lib/libgomp*.so* ${CAIRN_TORCH_DIR}/torch/lib/libarm_compute*.so*
  ${CAIRN_TORCH_DIR}/torch/lib/libopenblas*.so* ${CAIRN_TORCH_DIR}/torch/lib/libgfortran*.so*
  ${CAIRN_TORCH_DIR}/torch.libs/*.so*
  ${CAIRN_TORCH_DIR}/nvidia/cu13/lib/libcudart.so.13 ${CAIRN_TORCH_DIR}/nvidia/cu13/lib/libcupti.so.13)
install(PROGRAMS ${_libtorch} DESTINATION lib/cairn COMPONENT libtorch EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the Cairn maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /opt/cairn)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CAIRN_TORCH_RPATH})
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/tools/debian/postinst ${PROJECT_SOURCE_DIR}/tools/debian/prerm)
set(CPACK_STRIP_FILES OFF)
set(CPACK_INSTALL_CMAKE_PROJECTS
  "${PROJECT_BINARY_DIR};cairn;programs;/;${PROJECT_BINARY_DIR};cairn;libtorch;/")
include(CPack)
