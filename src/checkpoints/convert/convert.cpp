#include <cairn/checkpoints/convert.h>

#include "checkpoints/convert/output_place.h"
#include "checkpoints/internal/portable_checkpoint.h"
#include "checkpoints/megatron/rank_files.h"
#include "checkpoints/tensors/lazy_operations.h"

#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

/// Counts the bytes that are loaded. Some tensors are read more often than
/// foreseen, so the count is cut to the total.
class Meter {
 public:
  Meter(const ConvertOptions& options, std::uint64_t total)
      : told_(options.progress), total_(total) {}

  void add(std::uint64_t bytes) {
    done_ = std::min(total_, done_ + bytes);
    tell();
  }
  void finish() {
    done_ = total_;
    tell();
  }

 private:
  void tell() const {
    if (told_) {
      told_(done_, total_);
    }
  }

  std::function<void(std::uint64_t, std::uint64_t)> told_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
};

void measure(NamedTensors& tensors, const std::shared_ptr<Meter>& meter) {
  for (auto& [name, tensor] : tensors) {
    const at::ScalarType type = tensor.type;
    std::vector<std::int64_t> shape = tensor.shape;
    tensor = changed(
        std::move(tensor),
        type,
        std::move(shape),
        [meter](at::Tensor rows) {
          meter->add(rows.nbytes());
          return rows;
        });
  }
}

CheckpointFormat format_of(const ConvertOptions& options) {
  if (options.from) {
    return *options.from;
  }
  fs::path chosen = options.input;
  if (!options.tag.empty()) {
    chosen /= options.tag;
  } else if (options.iteration) {
    chosen /= megatron::iteration_folder(options.iteration);
  }
  return detect_checkpoint_format(chosen);
}

void expect_family(const Portable& portable, const ConvertOptions& options) {
  if (!options.family) {
    return;
  }
  const auto family = [&] { return portable.description->family; };
  // Megatron's GPT is one model, with any kind of positions.
  const bool fits = portable.description &&
      (family() == *options.family ||
       (family() == model::ModelFamily::llama &&
        *options.family == model::ModelFamily::gpt2));
  if (!fits) {
    throw ConfigError(
        {.what = "the checkpoint holds another model",
         .where = options.input.string(),
         .values = fmt::format(
             "{}, not {}",
             portable.description ? name_of(family()) : "an unknown one",
             name_of(*options.family))});
  }
}

ConvertReport report_of(
    const Portable& portable,
    CheckpointFormat from,
    CheckpointFormat to) {
  const bool states = holds_states(to);
  ConvertReport report{
      .from = from,
      .description = portable.description,
      .optimizer = states && !portable.optimizer_states.empty()};
  std::vector<const NamedTensors*> written{&portable.parameters};
  if (states) {
    written.push_back(&portable.buffers);
    written.push_back(&portable.optimizer_states);
  }
  for (const NamedTensors* tensors : written) {
    for (const auto& [name, tensor] : *tensors) {
      ++report.tensors;
      report.bytes +=
          static_cast<std::uint64_t>(c10::multiply_integers(tensor.shape)) *
          c10::elementSize(tensor.type);
    }
  }
  return report;
}

} // namespace

ConvertReport convert(const ConvertOptions& options) {
  const CheckpointFormat from = format_of(options);
  Portable portable = read_portable(from, options);
  if (portable.parameters.empty()) {
    throw CheckpointError(
        {.what = "there are no weights in it",
         .where = options.input.string()});
  }
  expect_family(portable, options);
  leave_out_states(portable, options);
  ConvertReport report = report_of(portable, from, options.to);
  const auto meter =
      std::make_shared<Meter>(options, bytes_to_read(portable, options));
  measure(portable.parameters, meter);
  measure(portable.buffers, meter);
  measure(portable.optimizer_states, meter);

  OutputPlace place(options);
  write_portable(portable, place.path(), options);
  place.publish();
  meter->finish();
  report.left_out = std::move(portable.left_out);
  return report;
}

} // namespace cairn::checkpoints
