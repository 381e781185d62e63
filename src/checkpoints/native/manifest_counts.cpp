#include "checkpoints/native/manifest_counts.h"

#include "checkpoints/tensors/whole_number.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace cairn::checkpoints {

namespace {

using nlohmann::json;

/// The step that a tag names, as 10 in "global_step10".
std::optional<std::int64_t> step_of(std::string_view tag) {
  constexpr std::string_view begin = "global_step";
  if (!tag.starts_with(begin)) {
    return std::nullopt;
  }
  tag.remove_prefix(begin.size());
  std::int64_t step = 0;
  const char* const end = tag.data() + tag.size();
  const auto [stop, error] = std::from_chars(tag.data(), end, step);
  return error == std::errc() && stop == end ? std::optional(step)
                                             : std::nullopt;
}

class Counts {
 public:
  explicit Counts(const Manifest& manifest)
      : state_(manifest.state),
        step_(manifest.step),
        global_steps_(count("global_steps")),
        samples_(count("samples")),
        skipped_(count("skipped_steps")),
        scheduled_(count("schedule_steps")),
        scheduled_samples_(count("schedule_samples")),
        updates_(
            state_.contains("optimizer") && state_["optimizer"].is_object()
                ? count_in(state_["optimizer"], "steps")
                : std::nullopt) {}

  std::string fault() const {
    if (global_steps_ && *global_steps_ != step_) {
      return fmt::format(
          "the step is {}, but global_steps {}",
          step_,
          *global_steps_);
    }
    if (skipped_ && *skipped_ > step_) {
      return fmt::format("skipped_steps {} of {} steps", *skipped_, step_);
    }
    return {};
  }

  std::string doubt(const std::string& tag) const {
    if (const auto named = step_of(tag); named && *named != step_) {
      return fmt::format("the tag is {}, the step {}", tag, step_);
    }
    if (updates_ && *updates_ > step_) {
      return fmt::format("{} updates in {} steps", *updates_, step_);
    }
    // A step takes one sample at least.
    if (samples_ && (*samples_ < step_ || (step_ == 0 && *samples_ > 0))) {
      return fmt::format("{} samples in {} steps", *samples_, step_);
    }
    return doubt_of_schedule();
  }

 private:
  static std::optional<std::int64_t> count_in(
      const json& object,
      const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) {
      return std::nullopt;
    }
    const auto value = whole_number<std::int64_t>(*found);
    if (value < 0) {
      throw CheckpointError(
          {.what = "a count below zero",
           .where = name,
           .values = fmt::to_string(value)});
    }
    return value;
  }
  std::optional<std::int64_t> count(const char* name) const {
    return state_.is_object() ? count_in(state_, name) : std::nullopt;
  }

  /// A schedule goes no more steps than the training, and no more samples.
  std::string doubt_of_schedule() const {
    if (scheduled_samples_ && samples_ && *scheduled_samples_ > *samples_) {
      return fmt::format(
          "the schedule has gone {} of {} samples",
          *scheduled_samples_,
          *samples_);
    }
    if (!state_.is_object() || state_.contains("schedule_samples") ||
        !scheduled_ || *scheduled_ <= step_) {
      return {};
    }
    return fmt::format(
        "the schedule has gone {} of {} steps",
        *scheduled_,
        step_);
  }

  const json& state_;
  std::int64_t step_;
  std::optional<std::int64_t> global_steps_;
  std::optional<std::int64_t> samples_;
  std::optional<std::int64_t> skipped_;
  std::optional<std::int64_t> scheduled_;
  std::optional<std::int64_t> scheduled_samples_;
  std::optional<std::int64_t> updates_;
};

} // namespace

std::string fault_of_counts(const Manifest& manifest) {
  return Counts(manifest).fault();
}

std::string doubt_of_counts(const Manifest& manifest) {
  return Counts(manifest).doubt(manifest.tag);
}

} // namespace cairn::checkpoints
