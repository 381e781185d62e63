#include <cairn/base/error.h>

#include "base/internal/file_error.h"
#include "data/internal/preprocess.h"
#include "data/preprocess/line_pipeline.h"
#include "data/preprocess/preprocess_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

namespace cairn::data {
namespace {

[[noreturn]] void refuse(std::string what, std::string remedy) {
  throw ConfigError({.what = std::move(what), .remedy = std::move(remedy)});
}

void check_keys(const std::vector<std::string>& keys) {
  if (std::set(keys.begin(), keys.end()).size() != keys.size()) {
    refuse("a key is named twice", "name each of --json-keys once");
  }
  for (const auto& key : keys) {
    if (key.empty() || key.find('/') != std::string::npos) {
      refuse(
          fmt::format("\"{}\" cannot be part of a file's name", key),
          "give that field another name in the input");
    }
  }
}

/// Reports missing files now, and not after hours of work.
void check_files(const PreprocessOptions& options) {
  const auto folder = options.output_prefix.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw DataError(
        {.what = "the folder of --output-prefix is missing",
         .where = folder.string(),
         .remedy = "make it, or give another --output-prefix"});
  }
  for (const auto& input : options.inputs) {
    if (input != "-" && ::access(input.c_str(), R_OK) != 0) {
      throw file_error("read", input, errno);
    }
  }
  if (std::count(options.inputs.begin(), options.inputs.end(), "-") > 1) {
    refuse("standard input can be read once only", "give one \"-\"");
  }
}

void check(const PreprocessOptions& options) {
  if (options.inputs.empty()) {
    refuse("there is no input", "give --input FILE");
  }
  if (options.keys.empty()) {
    refuse("there is no key", "give --json-keys KEY");
  }
  if (options.workers == 0 || options.partitions == 0) {
    refuse("--workers and --partitions are at least 1", "");
  }
  check_keys(options.keys);
  check_files(options);
  if (options.append_eod && !options.tokenizer->special().end_of_document) {
    refuse(
        "the tokenizer has no end-of-document token",
        "leave out --append-eod, or take another tokenizer");
  }
}

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
  // Megatron's classic format is older than uint16.
  report.type = options.format == IndexFormat::mmap
      ? token_type_for(options.tokenizer->vocab_size())
      : TokenType::int32;
  PreprocessOutput output(options, report.type);
  constexpr std::uint64_t complaints_shown = 10;
  {
    LinePipeline pipeline(options, report.type, [&](EncodedLines& lines) {
      output.append(lines);
      for (auto& part : lines.parts) {
        part.clear();
      }
    });
    while (const EncodedBlock* const block = pipeline.next()) {
      output.append(block->lines);
      std::uint64_t shown = report.skipped;
      for (const auto& complaint : block->lines.complaints) {
        if (shown++ < complaints_shown) {
          log.warning("skipped: {}", complaint);
        }
      }
      report.documents += block->lines.documents;
      report.skipped += block->lines.skipped;
      report.text_bytes += block->text_bytes;
      report.bytes_read += block->stored_bytes;
      report.tokens = output.token_count();
      progress(report);
    }
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
