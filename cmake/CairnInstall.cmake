# `cmake --install` gives a package for find_package(cairn): the libraries, the
# public headers, both programs, and CairnTorch.cmake, which finds the same
# libtorch on the consumer's side.
include(CMakePackageConfigHelpers)

add_library(cairn_all INTERFACE)
add_library(cairn::cairn ALIAS cairn_all)
set_target_properties(cairn_all PROPERTIES EXPORT_NAME cairn)
target_link_libraries(cairn_all INTERFACE cairn_base cairn_config cairn_data cairn_data_tensors cairn_distributed cairn_engine cairn_io cairn_models cairn_monitor cairn_nn cairn_optim cairn_pipeline cairn_profiler_traces cairn_text)
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
