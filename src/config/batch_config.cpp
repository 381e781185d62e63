#include <cairn/config/batch_config.h>

#include <cairn/base/error.h>

#include <fmt/format.h>

namespace cairn::config {
namespace {

using Integer = std::int64_t;

// Python's //, which DeepSpeed uses: rounds down, also below zero. Batches
// that are not positive are refused afterwards, with the value it would have.
Integer floor_divide(Integer a, Integer b) {
  // |INT64_MIN| / -1 overflows; b is never below zero by the time it matters.
  if (b == -1) {
    return a == INT64_MIN ? INT64_MAX : -a;
  }
  const Integer quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
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
    BatchConfig batch = filled();
    require_positive("train_batch_size", batch.train);
    require_positive("train_micro_batch_size_per_gpu", batch.micro);
    require_positive("gradient_accumulation_steps", batch.accumulation);
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
      require_divisor("train_micro_batch_size_per_gpu", *micro);
      batch.train = *train;
      batch.micro = *micro;
      batch.accumulation = floor_divide(floor_divide(*train, *micro), ranks_);
    } else if (train) {
      batch.train = *train;
      batch.accumulation = steps.value_or(1);
      require_divisor("gradient_accumulation_steps", batch.accumulation);
      batch.micro =
          floor_divide(floor_divide(*train, ranks_), batch.accumulation);
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

  void require_divisor(const char* name, Integer value) const {
    if (value == 0) {
      require_positive(name, value);
    }
  }

  void require_positive(const char* name, Integer value) const {
    if (value <= 0) {
      fail(
          fmt::format("{} is {}, it must be greater than 0", name, value),
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
    const Integer right = product(batch.micro, batch.accumulation);
    const bool all = request_.train_micro_batch_size_per_gpu &&
        request_.gradient_accumulation_steps;
    const Integer per_step = product(batch.micro, 1);
    const Integer per_sample = product(1, batch.accumulation);
    std::string remedy;
    if (!all) { // the third was derived, so only the total can be wrong
      remedy = fmt::format(
          "make train_batch_size a multiple of {}",
          request_.train_micro_batch_size_per_gpu ? per_step : per_sample);
    } else {
      remedy = fmt::format("set train_batch_size to {}", right);
      if (batch.train % per_step == 0) {
        remedy += fmt::format(
            ", or gradient_accumulation_steps to {}",
            batch.train / per_step);
      }
      if (batch.train % per_sample == 0) {
        remedy += fmt::format(
            ", or train_micro_batch_size_per_gpu to {}",
            batch.train / per_sample);
      }
      remedy += "; with one of the three left out it is derived";
    }
    fail(
        fmt::format(
            "train_batch_size {} is not train_micro_batch_size_per_gpu {} x "
            "gradient_accumulation_steps {} x data-parallel size {} = {}",
            batch.train,
            batch.micro,
            batch.accumulation,
            ranks_,
            right),
        remedy);
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
