#include <cairn/io/nvme_store.h>

#include <cairn/base/error.h>
#include <cairn/io/aligned_buffer.h>

#include <fmt/format.h>

#include <utility>

namespace cairn::io {

NvmeStore::NvmeStore(
    std::filesystem::path folder,
    const config::AioConfig& config,
    std::optional<EngineKind> kind)
    : folder_(std::move(folder)),
      queue_(config, kind),
      file_(AsyncFile::create_unnamed(folder_)) {}

void NvmeStore::create(const std::string& name, std::uint64_t bytes) {
  if (arrays_.contains(name)) {
    throw InternalError(
        {.what = fmt::format("there is an array \"{}\" already", name),
         .where = folder_.string()});
  }
  const std::uint64_t room = round_up_to_alignment(bytes);
  // Errors should name the array, so the slice gets a path of its own.
  AsyncFile part = file_.slice(folder_.string() + "/" + name, end_, bytes);
  part.reserve(0, room);
  arrays_.emplace(name, Array{std::move(part), bytes});
  end_ += room;
}

PendingTransfer NvmeStore::read(
    const std::string& name,
    std::uint64_t offset,
    std::span<std::byte> into) {
  return queue_.read(array(name).file, offset, into);
}

PendingTransfer NvmeStore::write(
    const std::string& name,
    std::uint64_t offset,
    std::span<const std::byte> from) {
  return queue_.write(array(name).file, offset, from);
}

std::uint64_t NvmeStore::size(const std::string& name) const {
  return array(name).bytes;
}

const NvmeStore::Array& NvmeStore::array(const std::string& name) const {
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) {
    throw InternalError(
        {.what = fmt::format("there is no array \"{}\"", name),
         .where = folder_.string()});
  }
  return found->second;
}

} // namespace cairn::io
