#include <cairn/distributed/collective_record.h>

namespace cairn::distributed {

std::int64_t bytes_sent(
    std::string_view operation,
    std::int64_t bytes,
    int ranks) {
  const std::int64_t others = ranks - 1;
  if (operation == "all_gather") {
    return others * bytes;
  }
  if (operation == "all_reduce") {
    // Every part is summed on one rank, then sent to all.
    return 2 * others * bytes / ranks;
  }
  if (operation == "reduce_scatter" || operation == "all_to_all" ||
      operation == "broadcast") {
    return others * bytes / ranks;
  }
  return operation == "send" ? bytes : 0;
}

} // namespace cairn::distributed
