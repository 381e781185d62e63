# The libraries that text, data, corpus and io stand on, as imported targets. CMake
# and the packages themselves know some of them; pkg-config's names differ between
# distributions, so the rest is found by header and library.
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(simdjson 3 REQUIRED)
find_package(ICU 67 REQUIRED COMPONENTS uc)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(BZip2 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(CURL REQUIRED)

function(cairn_find_library target header library)
  if(TARGET ${target})
    return()
  endif()
  string(MAKE_C_IDENTIFIER ${library} id)
  find_path(CAIRN_${id}_INCLUDE ${header})
  find_library(CAIRN_${id}_LIBRARY ${library})
  if(NOT CAIRN_${id}_INCLUDE OR NOT CAIRN_${id}_LIBRARY)
    message(FATAL_ERROR "lib${library} with ${header} was not found; dependencies.txt names its package")
  endif()
  add_library(${target} UNKNOWN IMPORTED)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION ${CAIRN_${id}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CAIRN_${id}_INCLUDE})
endfunction()
cairn_find_library(cairn::cld2 cld2/public/compact_lang_det.h cld2)
cairn_find_library(cairn::pcre2 pcre2.h pcre2-8)
cairn_find_library(cairn::zstd zstd.h zstd)
cairn_find_library(cairn::sentencepiece sentencepiece_processor.h sentencepiece)
cairn_find_library(cairn::uring liburing.h uring)
