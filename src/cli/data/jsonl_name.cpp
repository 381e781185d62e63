#include "cli/data/jsonl_name.h"

namespace cairn::cli {

std::filesystem::path unpacked_name(std::filesystem::path file) {
  for (const char* packed : {".gz", ".zst", ".xz", ".bz2"}) {
    if (file.extension() == packed) {
      file.replace_extension();
    }
  }
  return file;
}

bool is_jsonl_name(const std::filesystem::path& file) {
  const auto kind = unpacked_name(file).extension();
  return kind == ".jsonl" || kind == ".json" || kind == ".ndjson";
}

} // namespace cairn::cli
