#include "support/golden_tensors.h"

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace cairn::testing {

std::map<std::string, at::Tensor> golden_tensors(
    const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{
      std::istreambuf_iterator<char>(file),
      std::istreambuf_iterator<char>()};
  std::uint64_t header = 0;
  if (bytes.size() < sizeof(header)) {
    throw std::runtime_error("cannot read " + path.string());
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  const char* const first = bytes.data() + sizeof(header);
  const std::map<std::string, at::ScalarType> types{
      {"F32", at::kFloat},
      {"F16", at::kHalf},
      {"BF16", at::kBFloat16},
      {"I64", at::kLong}};
  std::map<std::string, at::Tensor> tensors;
  const auto entries = nlohmann::json::parse(first, first + header);
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") {
      continue;
    }
    at::Tensor tensor = at::empty(
        entry["shape"].get<std::vector<std::int64_t>>(),
        types.at(entry["dtype"]));
    std::memcpy(
        tensor.data_ptr(),
        first + header + entry["data_offsets"][0].get<std::size_t>(),
        tensor.nbytes());
    tensors[name] = tensor;
  }
  return tensors;
}

} // namespace cairn::testing
