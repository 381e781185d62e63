#include "pretrain/plan/stored_schedule.h"

#include "pretrain/model/read_stored.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace cairn::pretrain {

namespace {

using checkpoints::PythonValue;
using ScheduleOptions = optim::MegatronScheduleOptions;

constexpr std::array<std::pair<config::LrDecayStyle, std::string_view>, 5>
    decay_styles{
        {{config::LrDecayStyle::constant, "constant"},
         {config::LrDecayStyle::linear, "linear"},
         {config::LrDecayStyle::cosine, "cosine"},
         {config::LrDecayStyle::inverse_square_root, "inverse-square-root"},
         {config::LrDecayStyle::wsd, "WSD"}}};

constexpr std::array<std::pair<config::WeightDecayStyle, std::string_view>, 3>
    growth_styles{
        {{config::WeightDecayStyle::constant, "constant"},
         {config::WeightDecayStyle::linear, "linear"},
         {config::WeightDecayStyle::cosine, "cosine"}}};

/// Members of a stored schedule, taken one by one.
class Taker {
 public:
  Taker(const PythonValue& stored, ScheduleOptions& options)
      : stored_(stored), options_(options) {}

  template <typename T>
  void number(const char* name, T ScheduleOptions::*member) {
    const auto value = stored_.find(name);
    if (!value ||
        !(value->is(PythonValue::Kind::integer) ||
          value->is(PythonValue::Kind::real))) {
      return;
    }
    const double there = value->real();
    if (!std::isfinite(there) || there < 0 || there > 9e15) {
      throw CheckpointError(
          {.what = "no value of a schedule",
           .where = fmt::format("the checkpoint's {}", name),
           .values = fmt::format("{}", there)});
    }
    T& here = options_.*member;
    // A length may be a fraction that the checkpoint has rounded down.
    const bool same =
        std::is_integral_v<T> || std::string_view(name) == "lr_warmup_steps"
        ? std::floor(static_cast<double>(here)) == std::floor(there)
        : static_cast<double>(here) == there;
    if (!same) {
      differ(name, fmt::format("{}", there), fmt::format("{}", here));
      here = static_cast<T>(there);
    }
  }

  template <typename E, std::size_t n>
  void style(
      const char* name,
      E ScheduleOptions::*member,
      const std::array<std::pair<E, std::string_view>, n>& names) {
    const auto value = stored_.find(name);
    if (!value || !value->is(PythonValue::Kind::text)) {
      return;
    }
    E& here = options_.*member;
    std::string_view said;
    std::optional<E> there;
    for (const auto& [each, spelling] : names) {
      said = each == here ? spelling : said;
      if (spelling == value->text()) {
        there = each;
      }
    }
    if (!there) {
      throw CheckpointError(
          {.what = "an unknown style of the schedule",
           .where = fmt::format("the checkpoint's {}", name),
           .values = value->text()});
    }
    if (*there != here) {
      differ(name, value->text(), std::string(said));
      here = *there;
    }
  }

  std::string differences() && { return std::move(differences_); }

 private:
  void differ(
      const char* name,
      const std::string& there,
      const std::string& here) {
    differences_ += fmt::format(
        "{}{} {} there, {} here",
        differences_.empty() ? "" : "; ",
        name,
        there,
        here);
  }

  const PythonValue& stored_;
  ScheduleOptions& options_;
  std::string differences_;
};

/// The checkpoint's own words; None without any.
PythonValue read_schedule(const config::Config& config) {
  const auto format = stored_format(config.flags.checkpointing);
  if (!format) {
    return {};
  }
  const checkpoints::Portable portable = read_stored(*format, config.flags);
  for (const auto& [name, value] : portable.megatron_others) {
    if (name == "opt_param_scheduler" || name == "lr_scheduler") {
      return value;
    }
  }
  if (portable.client.is(PythonValue::Kind::dict)) {
    return portable.client.find("schedule").value_or(PythonValue());
  }
  return {};
}

} // namespace

std::optional<StoredSchedule> stored_schedule(
    const config::Config& config,
    const ScheduleOptions& by_flags) {
  const config::CheckpointFlags& flags = config.flags.checkpointing;
  if (!flags.load || flags.finetune || flags.no_load_lr_state) {
    return std::nullopt;
  }
  PythonValue stored;
  try {
    stored = read_schedule(config);
  } catch (const Error&) { // loading says what is wrong, or that none is there
    return std::nullopt;
  }
  if (!stored.is(PythonValue::Kind::dict) || stored.size() == 0) {
    return std::nullopt;
  }
  StoredSchedule schedule{.options = by_flags, .differences = {}};
  Taker taker(stored, schedule.options);
  taker.number("max_lr", &ScheduleOptions::max_lr);
  taker.number("min_lr", &ScheduleOptions::min_lr);
  taker.number("lr_warmup_steps", &ScheduleOptions::warmup_samples);
  taker.number("lr_decay_steps", &ScheduleOptions::decay_samples);
  taker.style("lr_decay_style", &ScheduleOptions::decay_style, decay_styles);
  taker.number("start_wd", &ScheduleOptions::start_weight_decay);
  taker.number("end_wd", &ScheduleOptions::end_weight_decay);
  taker.number("wd_incr_steps", &ScheduleOptions::weight_decay_samples);
  taker.style(
      "wd_incr_style",
      &ScheduleOptions::weight_decay_style,
      growth_styles);
  schedule.differences = std::move(taker).differences();
  return schedule;
}

} // namespace cairn::pretrain
