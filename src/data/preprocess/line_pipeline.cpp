#include "data/preprocess/line_pipeline.h"

#include "base/internal/file_error.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace cairn::data {
namespace {

/// Limit on the bytes of text that are read but whose tokens are not yet
/// written; the tokens may take four times as much.
constexpr std::size_t most_in_flight = 32 << 20;
/// Block sizes. A block stays in a core's cache from one step to the next.
constexpr std::size_t largest_block = 256 << 10;
constexpr std::size_t smallest_block = 32 << 10;
/// A larger block holds a huge line. Nothing is read beside it, and its tokens
/// are written while it is encoded.
constexpr std::size_t huge_block = 16 << 20;
/// Memory above this, which a long line needed, is released.
constexpr std::size_t most_kept = 4 << 20;

UniqueFd make_event() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  if (!event) {
    throw file_error("open", "an event", errno);
  }
  return event;
}

bool is_huge(const LineBlock& block) {
  return block.size > huge_block;
}

std::size_t weight_of(const LineBlock& block) {
  return is_huge(block) ? most_in_flight : block.size;
}

} // namespace

LinePipeline::LinePipeline(
    const PreprocessOptions& options,
    TokenType type,
    LineEncoder::Spill spill)
    : options_(options),
      type_(type),
      spill_(std::move(spill)),
      interrupt_(make_event()) {
  try {
    crew_.emplace_back([this] { read_inputs(); });
    for (std::size_t i = 0; i < options.workers; ++i) {
      crew_.emplace_back([this] { work(); });
    }
  } catch (...) {
    stop();
    throw;
  }
}

LinePipeline::~LinePipeline() {
  stop();
}

void LinePipeline::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  room_.notify_all();
  waiting_.notify_all();
  ::eventfd_write(interrupt_.get(), 1); // the reader may wait for an idle pipe
}

const EncodedBlock* LinePipeline::next() {
  std::unique_lock lock(mutex_);
  if (current_) {
    release();
  }
  finished_.wait(lock, [this] {
    return results_.contains(turn_) || (ended_ && turn_ == begun_);
  });
  auto result = results_.extract(turn_);
  if (result.empty()) {
    return nullptr;
  }
  current_ = std::move(result.mapped());
  if (current_->error) {
    std::rethrow_exception(current_->error);
  }
  return &current_->block;
}

void LinePipeline::release() {
  auto& lines = current_->block.lines;
  const bool small =
      std::all_of(lines.parts.begin(), lines.parts.end(), [](const auto& part) {
        return part.tokens.capacity() <= most_kept;
      });
  if (small) {
    lines.clear();
    spare_lines_.push_back(std::move(lines));
  }
  weight_ -= current_->weight;
  current_.reset();
  ++turn_;
  room_.notify_all();
}

void LinePipeline::read_inputs() {
  // Blocks are smaller with many workers, so that there are enough for all.
  const std::size_t block_size = std::clamp(
      most_in_flight / (4 * options_.workers),
      smallest_block,
      largest_block);
  std::exception_ptr error;
  try {
    std::uint64_t line_index = 0;
    for (const auto& input : options_.inputs) {
      BlockReader reader(
          input,
          {.block_size = block_size, .interrupt = interrupt_.get()});
      for (;;) {
        Job job{.block = spare_block(), .line_index = line_index};
        if (!reader.next(job.block)) {
          break;
        }
        line_index += job.block.lines;
        if (!submit(std::move(job))) {
          return;
        }
      }
    }
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (error) {
    // Reported in its place in the order: earlier lines may have their own
    // errors.
    results_.emplace(begun_++, Result{.error = error});
  }
  ended_ = true;
  waiting_.notify_all();
  finished_.notify_one();
}

LineBlock LinePipeline::spare_block() {
  const std::lock_guard lock(mutex_);
  if (spare_blocks_.empty()) {
    return {};
  }
  LineBlock block = std::move(spare_blocks_.back());
  spare_blocks_.pop_back();
  return block;
}

/// Queues a job and waits until another block may be read; false when the
/// pipeline has been stopped.
bool LinePipeline::submit(Job job) {
  std::unique_lock lock(mutex_);
  job.number = begun_++;
  weight_ += weight_of(job.block);
  jobs_.push_back(std::move(job));
  waiting_.notify_one();
  room_.wait(lock, [this] {
    return stopped_ ||
        (weight_ < most_in_flight && jobs_.size() <= options_.workers);
  });
  return !stopped_;
}

void LinePipeline::work() {
  std::optional<LineEncoder> encoder;
  Job job;
  while (take(job)) {
    Result result = encode(job, encoder);
    const std::lock_guard lock(mutex_);
    if (job.block.buffer.capacity() <= most_kept) {
      spare_blocks_.push_back(std::move(job.block));
    }
    job.block = {};
    results_.emplace(job.number, std::move(result));
    if (job.number == turn_) {
      finished_.notify_one();
    }
  }
}

bool LinePipeline::take(Job& job) {
  std::unique_lock lock(mutex_);
  waiting_.wait(lock, [this] { return stopped_ || ended_ || !jobs_.empty(); });
  if (stopped_ || jobs_.empty()) {
    return false;
  }
  job = std::move(jobs_.front());
  jobs_.pop_front();
  room_.notify_all();
  return true;
}

LinePipeline::Result LinePipeline::encode(
    Job& job,
    std::optional<LineEncoder>& encoder) {
  const bool huge = is_huge(job.block);
  Result result;
  result.weight = weight_of(job.block);
  result.block.text_bytes = job.block.size;
  result.block.stored_bytes = job.block.stored;
  {
    std::unique_lock lock(mutex_);
    if (huge) {
      room_.wait(lock, [&] { return stopped_ || turn_ == job.number; });
    }
    if (stopped_) {
      return result;
    }
    if (!spare_lines_.empty()) {
      result.block.lines = std::move(spare_lines_.back());
      spare_lines_.pop_back();
    }
  }
  try {
    if (!encoder) {
      encoder.emplace(options_, type_);
    }
    encoder->encode(
        job.block,
        job.line_index,
        result.block.lines,
        huge ? spill_ : nullptr);
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

} // namespace cairn::data
