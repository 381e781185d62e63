#include "cli/generate/generated_file.h"

#include <cairn/base/file.h>

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include <span>
#include <system_error>
#include <utility>

namespace cairn::cli {
namespace {

/// Throws DataError if the file cannot be written. Pipes are not tried: the
/// reader would take the trial for the end.
void require_writable(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    const AtomicFile trial(path);
  } else if (!std::filesystem::is_fifo(path, error)) {
    open_file(path, O_WRONLY | O_APPEND);
  }
}

} // namespace

GeneratedFile::GeneratedFile(std::filesystem::path path)
    : path_(std::move(path)) {
  require_writable(path_);
}

void GeneratedFile::add(
    const generate::GeneratedText& text,
    const std::optional<std::string>& prompt) {
  if (file_.get() < 0) {
    file_ = open_file(path_, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
  }
  using Json = nlohmann::ordered_json;
  Json object = Json::object();
  if (prompt) {
    object["prompt"] = *prompt;
  }
  object["text"] = text.text;
  object["length"] = text.length;
  object["finished"] = text.finished;
  const std::string line =
      object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  write_all(file_.get(), std::as_bytes(std::span(line)), path_);
}

} // namespace cairn::cli
