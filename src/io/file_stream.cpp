#include <cairn/io/file_stream.h>
#include <cairn/base/file.h>
#include "base/sync_file.h"
#include <fcntl.h>
namespace cairn::io {
FileStream::FileStream(std::filesystem::path path, std::uint64_t) : path_(std::move(path)), file_(open_file(path_, O_WRONLY|O_CREAT|O_EXCL)) {}
FileStream::~FileStream() = default;
void FileStream::write(std::span<const std::byte> bytes) { write_all(file_.get(), bytes, path_); }
void FileStream::finish() { sync_file(file_.get(), path_); file_.reset(); }
} // namespace cairn::io
