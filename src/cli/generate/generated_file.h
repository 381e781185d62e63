#pragma once

#include <cairn/base/file.h>
#include <cairn/generate/generate.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {

enum class LogProbs { no, yes };

/// Adds "log_probs" to an object; where the tokens come with the likeliest ones
/// beside them, "top_log_probs"; where there are any of the prompt,
/// "prompt_log_probs".
void add_log_probs(
    nlohmann::ordered_json& object,
    const std::vector<generate::ScoredToken>& prompt,
    const std::vector<generate::ScoredToken>& tokens);

/// Writes a line of JSON for every text when add() is called, so texts made
/// before a kill stay. Until the first text the file is as it was, or absent.
class GeneratedFile {
 public:
  /// `log_probs`: write the log-probabilities of the tokens as well. Throws
  /// DataError if the file cannot be written.
  GeneratedFile(std::filesystem::path path, LogProbs log_probs);

  void add(
      const generate::GeneratedText& text,
      const std::optional<std::string>& prompt = std::nullopt);
  void add(const nlohmann::ordered_json& object);

 private:
  std::filesystem::path path_;
  LogProbs log_probs_;
  UniqueFd file_;
};

} // namespace cairn::cli
