#include "cli/generate/generated_file.h"

#include <cairn/base/file.h>

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include <span>
#include <string>
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

void add_log_probs(
    nlohmann::ordered_json& object,
    const std::vector<generate::ScoredToken>& prompt,
    const std::vector<generate::ScoredToken>& tokens) {
  using Json = nlohmann::ordered_json;
  const auto add = [&](const std::string& name, const auto& list) {
    Json own = Json::array();
    Json likeliest = Json::array();
    bool has_likeliest = false;
    for (const generate::ScoredToken& token : list) {
      own.push_back(token.log_probability);
      Json row = Json::array();
      for (const auto& [id, log_probability] : token.likeliest) {
        row.push_back(Json::array({id, log_probability}));
        has_likeliest = true;
      }
      likeliest.push_back(std::move(row));
    }
    object[name] = std::move(own);
    if (has_likeliest) {
      object["top_" + name] = std::move(likeliest);
    }
  };
  if (!prompt.empty()) {
    add("prompt_log_probs", prompt);
  }
  add("log_probs", tokens);
}

GeneratedFile::GeneratedFile(std::filesystem::path path, LogProbs log_probs)
    : path_(std::move(path)), log_probs_(log_probs) {
  require_writable(path_);
}

void GeneratedFile::add(
    const generate::GeneratedText& text,
    const std::optional<std::string>& prompt) {
  using Json = nlohmann::ordered_json;
  Json object = Json::object();
  if (prompt) {
    object["prompt"] = *prompt;
  }
  object["text"] = text.text;
  object["length"] = text.length;
  object["finished"] = text.finished;
  if (log_probs_ == LogProbs::yes) {
    add_log_probs(object, text.prompt, text.tokens);
  }
  add(object);
}

void GeneratedFile::add(const nlohmann::ordered_json& object) {
  if (file_.get() < 0) {
    file_ = open_file(path_, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
  }
  using Json = nlohmann::ordered_json;
  const std::string line =
      object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  write_all(file_.get(), std::as_bytes(std::span(line)), path_);
}

} // namespace cairn::cli
