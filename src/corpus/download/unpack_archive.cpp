#include "corpus/internal/unpack_archive.h"

#include "corpus/download/archive_output.h"
#include "corpus/download/tar_archive.h"
#include "corpus/download/zip_archive.h"
#include "data/internal/byte_stream.h"

namespace cairn::corpus {

std::vector<std::filesystem::path> unpack_archive(
    const std::filesystem::path& archive,
    const std::filesystem::path& folder,
    const UnpackLimits& limits) {
  ArchiveOutput output(archive, folder, limits);
  if (is_zip(archive)) {
    unpack_zip(archive, output);
  } else {
    unpack_tar(*data::open_input(archive), output);
  }
  return output.files();
}

} // namespace cairn::corpus
