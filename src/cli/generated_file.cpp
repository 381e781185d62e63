#include "cli/generated_file.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fcntl.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

namespace cairn::cli {
namespace {

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

} // namespace

GeneratedFile::GeneratedFile(std::filesystem::path path)
    : path_(std::move(path)),
      was_there_(is_there(path_)),
      file_(open_file(path_, O_WRONLY | O_CREAT | O_APPEND)) {}

GeneratedFile::~GeneratedFile() {
  if (empty_ && !was_there_) {
    ::unlink(path_.c_str());
  }
}

void GeneratedFile::clear() {
  if (::ftruncate(file_.get(), 0) != 0 && errno != EINVAL) { // a pipe
    throw DataError(
        {.what = "cannot be emptied",
         .where = path_.string(),
         .values = std::strerror(errno)});
  }
}

void GeneratedFile::add(
    const generate::GeneratedText& text,
    const std::optional<std::string>& prompt) {
  if (std::exchange(empty_, false)) {
    clear();
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
