#include <cairn/config/batch_config.h>

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::config {
namespace {

using Integer = std::int64_t;

std::string derived_mark(const std::optional<Integer>& value) {
  return value ? "" : " (derived)";
}

// A number of ranks over which `parts` can be shared out, close below `ranks`.
Integer divisor_near(Integer parts, Integer ranks) {
  constexpr Integer tries = 4096; // either may be huge; 1 is always right
  const Integer from = std::min(parts, ranks);
  for (Integer each = from; each > 1 && from - each < tries; --each) {
    if (parts % each == 0) {
      return each;
    }
  }
  return 1;
}

std::string given(const std::optional<Integer>& value) {
  return value ? fmt::format("{}", *value) : "not given";
}

class Resolver {
 public:
  Resolver(const BatchRequest& request, Integer ranks, std::string where)
      : request_(request), ranks_(ranks), where_(std::move(where)) {}

  BatchConfig resolve() const {
    if (ranks_ < 1) {
      fail(fmt::format("a data-parallel size of {}", ranks_), "");
    }
    const auto& train = request_.train_batch_size;
    const auto& micro = request_.train_micro_batch_size_per_gpu;
    const auto& steps = request_.gradient_accumulation_steps;
    // Given values are checked first, so that no derived value takes the blame
    // for them.
    require_positive("train_batch_size", train.value_or(1));
    require_positive("train_micro_batch_size_per_gpu", micro.value_or(1));
    require_positive("gradient_accumulation_steps", steps.value_or(1));
    BatchConfig batch = filled();
    require_positive("train_micro_batch_size_per_gpu", batch.micro, micro);
    require_positive("gradient_accumulation_steps", batch.accumulation, steps);
    if (batch.train != product(batch.micro, batch.accumulation)) {
      fail_mismatch(batch);
    }
    return batch;
  }

 private:
  BatchConfig filled() const {
    const auto& train = request_.train_batch_size;
    const auto& micro = request_.train_micro_batch_size_per_gpu;
    const auto& steps = request_.gradient_accumulation_steps;
    if (!train && !micro) {
      fail(
          "the batch size is missing",
          "give train_batch_size (--global-batch-size) or "
          "train_micro_batch_size_per_gpu (--micro-batch-size)");
    }
    BatchConfig batch{.data_parallel = ranks_};
    if (train && micro && steps) {
      batch.train = *train;
      batch.micro = *micro;
      batch.accumulation = *steps;
    } else if (train && micro) {
      batch.train = *train;
      batch.micro = *micro;
      batch.accumulation = *train / *micro / ranks_;
    } else if (train) {
      batch.train = *train;
      batch.accumulation = steps.value_or(1);
      batch.micro = *train / ranks_ / batch.accumulation;
    } else {
      batch.micro = *micro;
      batch.accumulation = steps.value_or(1);
      batch.train = product(batch.micro, batch.accumulation);
    }
    return batch;
  }

  Integer product(Integer micro, Integer accumulation) const {
    Integer result = 0;
    if (__builtin_mul_overflow(micro, accumulation, &result) ||
        __builtin_mul_overflow(result, ranks_, &result)) {
      fail(
          "the batch size is too large to count",
          "",
          fmt::format("{} x {} x {}", micro, accumulation, ranks_));
    }
    return result;
  }

  void require_positive(
      const char* name,
      Integer value,
      const std::optional<Integer>& said = 0) const {
    if (value <= 0) {
      fail(
          fmt::format(
              "{} is {}{}, it has to be greater than 0",
              name,
              value,
              derived_mark(said)),
          "train_batch_size must be at least the data-parallel size, and each "
          "of the three at least 1",
          all_given());
    }
  }

  std::string all_given() const {
    return fmt::format(
        "train_batch_size {}, train_micro_batch_size_per_gpu {}, "
        "gradient_accumulation_steps {}, data-parallel size {}",
        given(request_.train_batch_size),
        given(request_.train_micro_batch_size_per_gpu),
        given(request_.gradient_accumulation_steps),
        ranks_);
  }

  [[noreturn]] void fail_mismatch(const BatchConfig& batch) const {
    const auto& micro = request_.train_micro_batch_size_per_gpu;
    const auto& steps = request_.gradient_accumulation_steps;
    const Integer right = product(batch.micro, batch.accumulation);
    fail(
        fmt::format(
            "train_batch_size {} is not train_micro_batch_size_per_gpu {}{} x "
            "gradient_accumulation_steps {}{} x data-parallel size {} = {}",
            batch.train,
            batch.micro,
            derived_mark(micro),
            batch.accumulation,
            derived_mark(steps),
            ranks_,
            right),
        fmt::format(
            "{}, or {}{}",
            another_total(right),
            other_factors(batch),
            other_ranks(batch.train)));
  }

  // The total may change …
  std::string another_total(Integer right) const {
    const auto& micro = request_.train_micro_batch_size_per_gpu;
    const auto& steps = request_.gradient_accumulation_steps;
    if (micro && steps) {
      return fmt::format("set train_batch_size to {}", right);
    }
    const Integer unit = product(micro.value_or(1), steps.value_or(1));
    const Integer low = *request_.train_batch_size / unit * unit;
    Integer high = 0;
    if (low == 0 || __builtin_add_overflow(low, unit, &high)) {
      return fmt::format("make train_batch_size a multiple of {}", unit);
    }
    return fmt::format("set train_batch_size to {} or {}", low, high);
  }

  // … or what one rank does …
  std::string other_factors(const BatchConfig& batch) const {
    if (batch.train % ranks_ != 0) {
      return "give train_micro_batch_size_per_gpu instead of it";
    }
    const Integer each = batch.train / ranks_;
    std::string ways;
    if (request_.train_micro_batch_size_per_gpu && each % batch.micro == 0) {
      ways =
          fmt::format("gradient_accumulation_steps to {}", each / batch.micro);
    }
    if (request_.gradient_accumulation_steps &&
        each % batch.accumulation == 0) {
      ways += fmt::format(
          "{}train_micro_batch_size_per_gpu to {}",
          ways.empty() ? "" : ", or ",
          each / batch.accumulation);
    }
    return !ways.empty() ? ways
                         : fmt::format(
                               "train_micro_batch_size_per_gpu x "
                               "gradient_accumulation_steps to {}",
                               each);
  }

  // … or the number of ranks.
  std::string other_ranks(Integer train) const {
    const auto& micro = request_.train_micro_batch_size_per_gpu;
    const auto& steps = request_.gradient_accumulation_steps;
    const Integer factor = micro.value_or(1) * steps.value_or(1);
    if (train % factor != 0) {
      return fmt::format(
          "; another number of ranks alone does not help, as {} is not "
          "divisible by {}",
          train,
          factor);
    }
    return fmt::format(
        ", or run with data-parallel size {}",
        micro && steps ? train / factor : divisor_near(train / factor, ranks_));
  }

  [[noreturn]] void fail(
      std::string what,
      std::string remedy,
      std::string values = "") const {
    throw ConfigError(
        {.what = std::move(what),
         .where = where_,
         .values = std::move(values),
         .remedy = std::move(remedy)});
  }

  const BatchRequest& request_;
  Integer ranks_;
  std::string where_;
};

} // namespace

BatchConfig resolve_batch(
    const BatchRequest& request,
    std::int64_t data_parallel_size,
    const std::string& where) {
  return Resolver(request, data_parallel_size, where).resolve();
}

std::string describe(const BatchConfig& batch) {
  return fmt::format(
      "effective batch {} = {} per rank x {} accumulation x {} data-parallel",
      batch.train,
      batch.micro,
      batch.accumulation,
      batch.data_parallel);
}

} // namespace cairn::config
