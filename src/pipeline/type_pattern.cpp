#include "pipeline/type_pattern.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <regex>

namespace cairn::pipeline {

struct TypePattern::Code {
  std::regex regex;
};

TypePattern::TypePattern(const std::string& pattern) {
  try {
    code_ = std::make_shared<const Code>(
        Code{std::regex(pattern, std::regex::ECMAScript | std::regex::icase)});
  } catch (const std::regex_error& error) {
    throw ConfigError(
        {.what = "not a regular expression",
         .where = fmt::format("partition method type:{}", pattern),
         .values = error.what()});
  }
}

bool TypePattern::found_in(std::string_view type) const {
  return std::regex_search(type.begin(), type.end(), code_->regex);
}

} // namespace cairn::pipeline
