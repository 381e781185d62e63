#include "cli/data/dataset_prefix.h"

#include <cairn/data/indexed_dataset.h>

namespace cairn::cli {

std::filesystem::path dataset_prefix(const std::string& typed) {
  const bool is_file = typed.ends_with(".bin") || typed.ends_with(".idx");
  if (is_file && !std::filesystem::exists(data::index_path(typed))) {
    return typed.substr(0, typed.size() - 4);
  }
  return typed;
}

} // namespace cairn::cli
