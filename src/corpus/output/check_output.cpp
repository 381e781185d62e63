#include "corpus/internal/check_output.h"

#include <cairn/base/error.h>

#include <system_error>

namespace cairn::corpus {
namespace fs = std::filesystem;

void check_output(
    std::span<const fs::path> inputs,
    const fs::path& output,
    bool overwrite) {
  std::error_code ignored;
  if (output == "-" || !fs::is_regular_file(output, ignored)) {
    return;
  }
  for (const fs::path& input : inputs) {
    if (fs::equivalent(input == "-" ? "/dev/stdin" : input, output, ignored)) {
      throw ConfigError(
          {.what = "the output is also an input, which it would replace",
           .where = output.string(),
           .remedy = "give another --output"});
    }
  }
  if (!overwrite) {
    throw DataError(
        {.what = "the output exists already",
         .where = output.string(),
         .remedy = "give another --output, or --overwrite to replace it"});
  }
}

} // namespace cairn::corpus
