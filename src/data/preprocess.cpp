#include <cairn/base/error.h>
#include <cairn/base/thread_pool.h>
#include <cairn/base/unique_fd.h>
#include <cairn/data/line_reader.h>
#include <cairn/data/preprocess.h>

#include "base/file_error.h"
#include "data/line_encoder.h"
#include "data/ordered_jobs.h"
#include "data/preprocess_output.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <future>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

namespace cairn::data {
namespace {

/// Lines read and not yet written. Their tokens may take four times as much.
constexpr std::size_t most_in_flight = 64 << 20;
constexpr std::size_t largest_block = 1 << 20;
constexpr std::size_t smallest_block = 64 << 10;
/// A block of more has a huge document in it. Its tokens are written while it
/// is encoded, on the writing thread.
constexpr std::size_t huge_block = 24 << 20;

struct Job {
  LineBlock block;
  std::uint64_t line_index = 0;
  EncodedLines lines; ///< empty while `huge` waits for the writer
  bool huge = false;
};

void check(const PreprocessOptions& options) {
  const auto refuse = [](std::string what, std::string remedy) {
    throw ConfigError({.what = std::move(what), .remedy = std::move(remedy)});
  };
  if (options.inputs.empty()) {
    refuse("there is no input", "give --input FILE");
  }
  if (options.keys.empty()) {
    refuse("there is no key", "give --json-keys KEY");
  }
  if (options.workers == 0 || options.partitions == 0) {
    refuse("--workers and --partitions are at least 1", "");
  }
  if (std::set(options.keys.begin(), options.keys.end()).size() !=
      options.keys.size()) {
    refuse("a key is named twice", "name each of --json-keys once");
  }
  for (const auto& key : options.keys) {
    if (key.empty() || key.find('/') != std::string::npos) {
      refuse(
          fmt::format("\"{}\" cannot be part of a file's name", key),
          "give that field another name in the input");
    }
  }
  const auto folder = options.output_prefix.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw DataError(
        {.what = "the folder of --output-prefix is missing",
         .where = folder.string(),
         .remedy = "make it, or give another --output-prefix"});
  }
  // Before hours of work, not after: a file of many that is not there.
  for (const auto& input : options.inputs) {
    if (input != "-" && ::access(input.c_str(), R_OK) != 0) {
      throw file_error("read", input, errno);
    }
  }
  if (std::count(options.inputs.begin(), options.inputs.end(), "-") > 1) {
    refuse("standard input can be read once only", "give one \"-\"");
  }
  if (options.append_eod && !options.tokenizer->special().end_of_document) {
    refuse(
        "the tokenizer has no end-of-document token",
        "leave out --append-eod, or take another tokenizer");
  }
}

UniqueFd make_event() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  if (!event) {
    throw file_error("open", "an event", errno);
  }
  return event;
}

/// Everything that runs at the same time, so that it also ends together.
class Pipeline {
 public:
  Pipeline(const PreprocessOptions& options, TokenType type)
      : options_(options),
        type_(type),
        block_size_(std::clamp(
            most_in_flight / (4 * options.workers),
            smallest_block,
            largest_block)),
        jobs_(most_in_flight),
        pool_(options.workers),
        reader_([this] { read_inputs(); }) {}

  ~Pipeline() {
    jobs_.stop();
    ::eventfd_write(stopped_.get(), 1); // it may wait for an idle pipe
    reader_.join();
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Hands every block to `take`, in order.
  template <typename Take>
  void run(const Take& take) {
    while (auto next = jobs_.pop()) {
      Job job = next->first.get();
      take(job);
      job = {};
      jobs_.release(next->second);
    }
  }

  /// Lends an encoder to `use` and keeps it for the next who asks.
  template <typename Use>
  void with_encoder(const Use& use) {
    std::unique_ptr<LineEncoder> encoder;
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        encoder = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (encoder == nullptr) {
      encoder = std::make_unique<LineEncoder>(options_, type_);
    }
    use(*encoder);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(encoder));
  }

 private:
  void read_inputs() {
    try {
      std::uint64_t line_index = 0;
      for (const auto& input : options_.inputs) {
        BlockReader reader(
            input,
            {.block_size = block_size_, .interrupt = stopped_.get()});
        for (;;) {
          Job job;
          if (!reader.next(job.block)) {
            break;
          }
          job.line_index = line_index;
          line_index += job.block.lines;
          if (!submit(std::move(job))) {
            return;
          }
        }
      }
    } catch (...) {
      // Told in its place: lines before it may have errors of their own.
      std::promise<Job> failed;
      failed.set_exception(std::current_exception());
      jobs_.push(failed.get_future(), 0);
    }
    jobs_.close();
  }

  bool submit(Job job) {
    const std::size_t weight = job.block.size;
    if (!jobs_.reserve(weight)) {
      return false;
    }
    job.huge = weight > huge_block;
    if (job.huge) {
      std::promise<Job> ready;
      ready.set_value(std::move(job));
      jobs_.push(ready.get_future(), weight);
      jobs_.drain(); // the next line may be as large: one at a time
      return true;
    }
    auto shared = std::make_shared<Job>(std::move(job));
    jobs_.push(
        pool_.submit([this, shared] {
          if (!jobs_.stopped()) {
            with_encoder([&](LineEncoder& encoder) {
              encoder
                  .encode(shared->block, shared->line_index, shared->lines, {});
            });
          }
          return std::move(*shared);
        }),
        weight);
    return true;
  }

  const PreprocessOptions& options_;
  TokenType type_;
  std::size_t block_size_;
  UniqueFd stopped_ = make_event();
  std::mutex mutex_;
  std::vector<std::unique_ptr<LineEncoder>> idle_;
  OrderedJobs<Job> jobs_;
  ThreadPool pool_;
  std::thread reader_; ///< last: it uses all of the above
};

} // namespace

std::filesystem::path output_of(
    const PreprocessOptions& options,
    const std::string& key) {
  auto path = options.output_prefix;
  path +=
      fmt::format("_{}_{}", key, options.splitter ? "sentence" : "document");
  return path;
}

std::uint64_t stored_size(const PreprocessOptions& options) {
  std::uint64_t size = 0;
  for (const auto& input : options.inputs) {
    std::error_code error;
    const auto one = std::filesystem::file_size(input, error);
    if (error) {
      return 0;
    }
    size += one;
  }
  return size;
}

PreprocessReport preprocess(
    const PreprocessOptions& options,
    const Logger& log,
    const std::function<void(const PreprocessReport&)>& progress) {
  check(options);
  PreprocessReport report;
  // Megatron's other format is older than uint16.
  report.type = options.format == IndexFormat::mmap
      ? token_type_for(options.tokenizer->vocab_size())
      : TokenType::int32;
  PreprocessOutput output(options, report.type);
  constexpr std::uint64_t complaints_shown = 10;
  {
    Pipeline pipeline(options, report.type);
    pipeline.run([&](Job& job) {
      if (job.huge) {
        pipeline.with_encoder([&](LineEncoder& encoder) {
          encoder.encode(
              job.block,
              job.line_index,
              job.lines,
              [&](EncodedLines& lines) { output.spill(lines); });
        });
      }
      output.append(job.lines);
      std::uint64_t shown = report.skipped;
      for (const auto& complaint : job.lines.complaints) {
        if (shown++ < complaints_shown) {
          log.warning("skipped: {}", complaint);
        }
      }
      report.documents += job.lines.documents;
      report.skipped += job.lines.skipped;
      report.text_bytes += job.block.size;
      report.bytes_read += job.block.stored;
      report.tokens = output.token_count();
      progress(report);
    });
  }
  if (report.documents == 0) {
    throw DataError(
        {.what = "the input holds no document",
         .where = options.inputs.front().string(),
         .values = report.skipped == 0
             ? std::string()
             : fmt::format("{} lines skipped", report.skipped)});
  }
  output.commit();
  report.bytes_written = output.bytes_written();
  for (const auto& key : options.keys) {
    report.outputs.push_back(output_of(options, key));
  }
  return report;
}

} // namespace cairn::data
