#include "data/indexed/npy_file.h"

#include "base/internal/crc32c.h"
#include "data/indexed/npy_header.h"

#include <cairn/base/file.h>
#include <cairn/base/mapped_file.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

namespace cairn::data {

IndexArray load_npy(const std::filesystem::path& path) {
  auto file =
      std::make_shared<const MappedFile>(path, MappedFile::Advice::normal);
  NpyHeader header = parse_npy_header(file->bytes(), path.string());
  const auto data = file->bytes().subspan(header.data_offset);
  return IndexArray(
      header.type,
      data,
      std::move(header.shape),
      std::move(file));
}

void save_npy(const std::filesystem::path& path, const IndexArray& array) {
  AtomicFile file(path);
  file.write(npy_header_text(array.type(), array.shape()));
  file.write(array.bytes());
  file.commit();
}

FileChecksum checksum_of_npy(const std::string& name, const IndexArray& array) {
  const std::string header = npy_header_text(array.type(), array.shape());
  return {
      .name = name,
      .size = header.size() + array.bytes().size(),
      .crc = crc32c(array.bytes(), crc32c(std::as_bytes(std::span(header))))};
}

} // namespace cairn::data
