#define PCRE2_CODE_UNIT_WIDTH 8

#include "pipeline/type_pattern.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

namespace cairn::pipeline {
namespace {

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

} // namespace

TypePattern::TypePattern(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE position = 0;
  pcre2_code* code = pcre2_compile(
      units(pattern),
      pattern.size(),
      PCRE2_CASELESS | PCRE2_NEVER_BACKSLASH_C,
      &error,
      &position,
      nullptr);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw ConfigError(
        {.what = "not a regular expression",
         .where = fmt::format("partition method type:{}", pattern),
         .values = fmt::format(
             "{} at character {}",
             reinterpret_cast<const char*>(message.data()),
             position)});
  }
  code_ = std::shared_ptr<void>(code, [](void* compiled) {
    pcre2_code_free(static_cast<pcre2_code*>(compiled));
  });
}

bool TypePattern::found_in(std::string_view type) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>
      match(
          pcre2_match_data_create_from_pattern(code, nullptr),
          &pcre2_match_data_free);
  return pcre2_match(
             code,
             units(type),
             type.size(),
             0,
             0,
             match.get(),
             nullptr) >= 0;
}

} // namespace cairn::pipeline
