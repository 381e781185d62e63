#pragma once

#include <cairn/base/unique_fd.h>
#include <cairn/data/line_reader.h>
#include <cairn/data/preprocess.h>

#include "data/line_encoder.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace cairn::data {

struct EncodedBlock {
  EncodedLines lines;
  std::size_t text_bytes = 0;
  std::uint64_t stored_bytes = 0; ///< of the input, read for it
};

/// The lines of all inputs, encoded: one thread reads blocks of them, others
/// encode these. Results come in the order of the lines, and what is between
/// reading and next() is bounded.
class LinePipeline {
 public:
  /// What a huge line becomes goes through `spill`, on another thread, but only
  /// while next() waits for the rest of it.
  LinePipeline(
      const PreprocessOptions& options,
      TokenType type,
      LineEncoder::Spill spill);
  ~LinePipeline();
  LinePipeline(const LinePipeline&) = delete;
  LinePipeline& operator=(const LinePipeline&) = delete;

  /// Valid until the next call; nullptr at the end. Of all that went wrong the
  /// first in the order of the lines is thrown.
  const EncodedBlock* next();

 private:
  struct Job {
    std::uint64_t number = 0; ///< in the order of reading
    LineBlock block;
    std::uint64_t line_index = 0;
  };
  struct Result {
    EncodedBlock block;
    std::size_t weight = 0;
    std::exception_ptr error;
  };

  void read_inputs();
  LineBlock spare_block();
  bool submit(Job job);
  void work();
  bool take(Job& job);
  Result encode(Job& job, std::optional<LineEncoder>& encoder);
  void release();
  void stop();

  const PreprocessOptions& options_;
  TokenType type_;
  LineEncoder::Spill spill_;
  UniqueFd interrupt_;

  std::mutex mutex_; ///< for what follows
  std::condition_variable room_;
  std::condition_variable waiting_;
  std::condition_variable finished_;
  std::deque<Job> jobs_;                    ///< read, not yet taken
  std::map<std::uint64_t, Result> results_; ///< not yet asked for
  std::optional<Result> current_;
  std::vector<LineBlock> spare_blocks_; ///< memory that is warm
  std::vector<EncodedLines> spare_lines_;
  std::uint64_t begun_ = 0; ///< jobs
  std::uint64_t turn_ = 0;  ///< the number that next() hands out
  std::size_t weight_ = 0;  ///< of jobs that are not released
  bool ended_ = false;
  bool stopped_ = false;

  std::vector<std::jthread> crew_; ///< last: it uses all of the above
};

} // namespace cairn::data
