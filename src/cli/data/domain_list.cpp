#include "cli/data/domain_list.h"

#include <cairn/base/file.h>

#include <algorithm>
#include <cstdint>
#include <sstream>

namespace cairn::cli {

std::vector<std::string> domains_in(const std::string& file) {
  constexpr std::uint64_t largest = std::uint64_t{1} << 30;
  std::vector<std::string> domains;
  std::istringstream lines(read_file(file, largest));
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      domains.push_back(word);
    }
  }
  return domains;
}

} // namespace cairn::cli
