#pragma once

#include "pretrain/internal/pretrain.h"

#include <cairn/base/log.h>
#include <cairn/config/flags.h>
#include <cairn/data/batch.h>
#include <cairn/data/data_selection.h>
#include <cairn/text/tokenizer.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace cairn::pretrain {

/// The training, validation or test data, of any kind.
struct SplitData {
  std::int64_t samples = 0;
  std::function<void(
      std::span<const std::int64_t> indices,
      const data::HostAllocator& allocate,
      data::Batch& batch)>
      collate;
};

struct PretrainingData {
  std::array<std::optional<SplitData>, 3> splits{};
  std::uint64_t checksum = 0; ///< of the orders of samples

  const std::optional<SplitData>& operator[](data::Split split) const {
    return splits[data::index_of(split)];
  }
};

/// Opens the tokenizer of the flags. Throws ConfigError, DataError.
std::shared_ptr<const text::Tokenizer> open_tokenizer(
    Kind kind,
    const config::Flags& flags);

/// Opens the data that --data-path and the like name, `samples` of each split.
/// Throws ConfigError, DataError.
PretrainingData open_data(
    Kind kind,
    const config::Flags& flags,
    const text::Tokenizer& tokenizer,
    const data::SampleCounts& samples,
    const Logger& logger);

} // namespace cairn::pretrain
