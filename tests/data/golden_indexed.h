#pragma once

#include <cairn/data/indexed_dataset.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::data::fixtures {

inline std::filesystem::path golden_indexed(const std::string& name) {
  return std::filesystem::path(CAIRN_GOLDEN_DIR) / "indexed" / name;
}

inline std::string slurp(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

using Documents = std::vector<std::vector<std::vector<std::int64_t>>>;

/// All documents, as lists of sequences of ids.
inline Documents all_documents(const IndexedDataset& dataset) {
  Documents documents;
  const auto indices = dataset.document_indices();
  for (std::size_t i = 0; i < dataset.document_count(); ++i) {
    auto& document = documents.emplace_back();
    for (auto s = indices[i]; s < indices[i + 1]; ++s) {
      const auto sequence = static_cast<std::size_t>(s);
      auto& ids = document.emplace_back(dataset.length(sequence));
      dataset.read(sequence, 0, ids);
    }
  }
  return documents;
}

} // namespace cairn::data::fixtures
