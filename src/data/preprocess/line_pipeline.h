#pragma once

#include <cairn/base/file.h>

#include "data/internal/line_reader.h"
#include "data/internal/preprocess.h"
#include "data/preprocess/line_encoder.h"

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
  std::uint64_t stored_bytes = 0; ///< bytes of the input read for it
};

/// Encodes the lines of all inputs: one thread reads blocks of lines, other
/// threads encode them. Results come in the order of the lines, and the amount
/// of data between reading and next() is bounded.
class LinePipeline {
 public:
  /// The tokens of a huge line go to `spill`, on another thread, but only while
  /// next() waits for the rest of the line.
  LinePipeline(
      const PreprocessOptions& options,
      TokenType type,
      LineEncoder::Spill spill);
  ~LinePipeline();
  LinePipeline(const LinePipeline&) = delete;
  LinePipeline& operator=(const LinePipeline&) = delete;

  /// The next block, valid until the next call; nullptr at the end. Of several
  /// errors, throws the first in the order of the lines.
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

  std::mutex mutex_; ///< guards the members below
  std::condition_variable room_;
  std::condition_variable waiting_;
  std::condition_variable finished_;
  std::deque<Job> jobs_;                    ///< read, not yet taken
  std::map<std::uint64_t, Result> results_; ///< not yet returned
  std::optional<Result> current_;
  std::vector<LineBlock> spare_blocks_; ///< memory for reuse
  std::vector<EncodedLines> spare_lines_;
  std::uint64_t begun_ = 0; ///< number of jobs begun
  std::uint64_t turn_ = 0;  ///< the job that next() returns
  std::size_t weight_ = 0;  ///< sum over jobs not yet released
  bool ended_ = false;
  bool stopped_ = false;

  std::vector<std::jthread> crew_; ///< last: uses all of the above
};

} // namespace cairn::data
