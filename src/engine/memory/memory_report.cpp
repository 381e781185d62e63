#include <cairn/engine/engine_status.h>

#include <fmt/format.h>

#include <iterator>
#include <string_view>

namespace cairn::inline engine {

std::string MemoryReport::describe() const {
  std::string text = fmt::format("memory of this rank, model on {}\n", device);
  const auto row = [&](std::string_view what, std::int64_t bytes) {
    if (bytes != 0) {
      fmt::format_to(
          std::back_inserter(text),
          "  {:<36} {:>10.1f} MB\n",
          what,
          static_cast<double>(bytes) / 1e6);
    }
  };
  row("parameters", parameters);
  row("parameters gathered for operators", gathered);
  row("gradients", gradients);
  row("optimizer", optimizer);
  row("buffers", buffers);
  row("activations, at most", activations);
  row("parameters in CPU memory", parameters_on_cpu);
  row("gradients in CPU memory", gradients_on_cpu);
  row("optimizer in CPU memory", optimizer_on_cpu);
  row("parameters on disk", parameters_on_disk);
  row("optimizer on disk", optimizer_on_disk);
  row("allocated", allocated);
  row("most allocated", most_allocated);
  row("of what is allocated, none of these", other);
  return text;
}

} // namespace cairn::engine
