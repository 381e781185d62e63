#include "generate/shared_core.h"

#include "generate/available_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <cairn/base/error.h>
#include <cairn/generate/generate.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <span>

namespace cairn::generate {
namespace {

using distributed::Axis;

/// Numbers of an order in its first message. Longer ones have a second.
constexpr std::int64_t first_numbers = 512;
/// A silence after which rank 0 says that it is there. It looks as often.
constexpr std::chrono::milliseconds silence{500};

std::span<std::int64_t> numbers_in(const at::Tensor& message) {
  return {
      message.mutable_data_ptr<std::int64_t>(),
      static_cast<std::size_t>(message.numel())};
}

void check_shared(
    const distributed::World& world,
    const models::ModelDescription& model,
    const SharedModelOptions& options) {
  require_left_to_right(model);
  if (world.size() != options.tensor * options.stages) {
    throw ConfigError(
        {.what = "the ranks are not those that the model is divided over",
         .where = "--tensor-model-parallel-size, "
                  "--pipeline-model-parallel-size",
         .values = fmt::format(
             "{} ranks, {} x {} parts",
             world.size(),
             options.tensor,
             options.stages),
         .remedy = "start as many ranks as there are parts"});
  }
  if (world.device_name() != "cpu") {
    throw ConfigError(
        {.what = "ranks share a model on CPUs only",
         .where = "--device",
         .values = world.device_name(),
         .remedy = "add --device cpu, or run one rank on its GPU"});
  }
}

distributed::ProcessMesh mesh_of(
    const distributed::World& world,
    const SharedModelOptions& options) {
  return {
      world.group(),
      {.pipeline = options.stages, .tensor = options.tensor}};
}

PartPlace place_in(const distributed::ProcessMesh& mesh) {
  return {
      .tensor_rank = mesh.coordinate(Axis::tensor),
      .tensor_ranks = mesh.degree(Axis::tensor),
      .stage = mesh.coordinate(Axis::pipeline),
      .stages = mesh.degree(Axis::pipeline)};
}

} // namespace

SharedModel::Core::Core(
    const distributed::World& world,
    const models::StoredModel& stored,
    const SharedModelOptions& options)
    : world_(world.group()),
      description_(stored.description),
      weight_type_(options.weights) {
  check_shared(world, description_, options);
  const distributed::ProcessMesh mesh = mesh_of(world, options);
  part_ = ModelPart::of(description_, place_in(mesh));
  links_ = RankLinks(mesh.along(Axis::tensor), mesh.along(Axis::pipeline));
  try {
    weights_ = std::make_shared<const DecoderWeights>(DecoderWeights::read(
        stored.tensors,
        description_,
        part_,
        options.dtype,
        options.weights));
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
  const std::int64_t token_bytes = part_.cache_numbers(description_) *
      static_cast<std::int64_t>(sizeof(float));
  const std::int64_t ranks_here =
      std::max(1, world.environment().local_world_size);
  const at::Tensor fit = at::tensor(
      {available_memory() / 2 / ranks_here / token_bytes},
      at::kLong);
  tokens_that_fit_ = world_.all_reduce(fit, distributed::ReduceOp::min)
                         .wait()
                         .item<std::int64_t>();
  if (world_.rank() == 0) {
    beat_ = std::jthread(
        [this](const std::stop_token& stop) { keep_in_touch(stop); });
  }
}

SharedModel::Core::~Core() {
  if (!beat_.joinable()) {
    return;
  }
  beat_.request_stop();
  beat_.join();
  try {
    together({.kind = RankOrder::Kind::end}, [] {});
  } catch (...) { // NOLINT(bugprone-empty-catch)
    // The job has failed, so the others have ended.
  }
}

CacheShape SharedModel::Core::cache_of(
    std::int64_t page_tokens,
    std::int64_t most_pages) const {
  return {
      .layers = part_.layers.count,
      .heads = part_.groups.count,
      .head_size = description_.head_size,
      .page_tokens = page_tokens,
      .most_pages = most_pages};
}

CacheShape SharedModel::Core::cache_of(const TextBatchOptions& options) const {
  const std::int64_t size = options.page_tokens;
  const auto pages = [&](std::int64_t tokens) {
    return (tokens + size - 1) / size;
  };
  return cache_of(
      size,
      options.cache_tokens
          ? pages(*options.cache_tokens)
          : std::clamp(
                tokens_that_fit_ / size,
                std::int64_t{1},
                options.most_texts * pages(description_.positions)));
}

void SharedModel::Core::say(const RankOrder& order) {
  const std::vector<std::int64_t> numbers = order.numbers();
  const auto count = std::ssize(numbers);
  const at::Tensor first = at::zeros({first_numbers}, at::kLong);
  const std::int64_t in_first = std::min(count, first_numbers - 1);
  const std::span<std::int64_t> message = numbers_in(first);
  message[0] = count;
  std::copy_n(numbers.begin(), in_first, message.begin() + 1);
  world_.broadcast(first, 0).wait();
  if (in_first < count) {
    const at::Tensor rest = at::empty({count - in_first}, at::kLong);
    std::copy(
        numbers.begin() + in_first,
        numbers.end(),
        numbers_in(rest).begin());
    world_.broadcast(rest, 0).wait();
  }
  last_order_ = Clock::now();
}

RankOrder SharedModel::Core::hear() const {
  const at::Tensor first = at::empty({first_numbers}, at::kLong);
  world_.broadcast(first, 0).wait();
  const std::span<const std::int64_t> message = numbers_in(first);
  const std::int64_t count = message[0];
  const std::int64_t in_first = std::min(count, first_numbers - 1);
  std::vector<std::int64_t> numbers(
      message.begin() + 1,
      message.begin() + 1 + in_first);
  if (in_first < count) {
    const at::Tensor rest = at::empty({count - in_first}, at::kLong);
    world_.broadcast(rest, 0).wait();
    const std::span<const std::int64_t> more = numbers_in(rest);
    numbers.insert(numbers.end(), more.begin(), more.end());
  }
  return RankOrder::from(numbers);
}

/// Speaks to the others while there is nothing to compute, and so notices when
/// one of them is lost.
void SharedModel::Core::keep_in_touch(const std::stop_token& stop) {
  std::mutex own;
  std::condition_variable_any news;
  std::unique_lock waiting(own);
  while (!news.wait_for(waiting, stop, silence, [&] {
    return stop.stop_requested();
  })) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || Clock::now() - last_order_ < silence) {
      continue; // who has the ranks speaks to them
    }
    try {
      throw_if_failed();
      say({});
    } catch (...) {
      fail(std::current_exception());
      return;
    }
  }
}

void SharedModel::Core::fail(const std::exception_ptr& error) noexcept {
  std::string why = "an exception";
  try {
    std::rethrow_exception(error);
  } catch (const CommError&) {
    why.clear(); // the others know
  } catch (const std::exception& known) {
    why = known.what();
  } catch (...) { // NOLINT(bugprone-empty-catch)
  }
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) {
      failure_ = error;
    }
  }
  failed_ = true;
  if (!why.empty()) {
    world_.fail("texts", why);
  }
}

void SharedModel::Core::throw_if_failed() const {
  const std::lock_guard lock(failure_mutex_);
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

} // namespace cairn::generate
