#include "evaluate/finetune/task_data.h"

#include "base/internal/progress.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace cairn::evaluate {
namespace {

/// Tokens of question and option that RACE's samples have at most: Megatron's
/// number.
constexpr std::size_t longest_question = 128;

/// Encodes rows. An article that several rows have is encoded once.
class RowEncoder {
 public:
  RowEncoder(const FinetuneTask& task, const text::Tokenizer& tokenizer)
      : task_(task), encoder_(tokenizer.make_encoder()) {}

  std::vector<EncodedTexts> encode(const TaskRow& row) {
    std::vector<EncodedTexts> result;
    for (const TaskRow::Texts& texts : row.texts) {
      EncodedTexts encoded{.a = ids_of(texts.a)};
      if (task_.is_multiple_choice() && encoded.a.size() > longest_question) {
        encoded.a.resize(longest_question);
      }
      if (texts.b) {
        encoded.b = second(*texts.b);
      }
      result.push_back(std::move(encoded));
    }
    return result;
  }

 private:
  EncodedTexts::Ids ids_of(const std::string& text) {
    EncodedTexts::Ids ids;
    encoder_->encode(text, ids);
    ids.shrink_to_fit();
    return ids;
  }

  std::shared_ptr<const EncodedTexts::Ids> second(const std::string& text) {
    if (!last_ || text != last_text_) {
      last_ = std::make_shared<const EncodedTexts::Ids>(ids_of(text));
      last_text_ = text;
    }
    return last_;
  }

  const FinetuneTask& task_;
  std::unique_ptr<text::Encoder> encoder_;
  std::string last_text_;
  std::shared_ptr<const EncodedTexts::Ids> last_;
};

std::span<std::int64_t> row_of(const at::Tensor& x, std::int64_t row) {
  return {
      x.mutable_data_ptr<std::int64_t>() + row * x.size(1),
      static_cast<std::size_t>(x.size(1))};
}

} // namespace

TaskData::TaskData(
    Options options,
    const std::vector<std::string>& paths,
    const Logger& logger)
    : options_(std::move(options)) {
  for (const std::string& path : paths) {
    read(path, logger);
  }
}

void TaskData::read(const std::string& path, const Logger& logger) {
  const FinetuneTask& task = options_.task;
  const std::int64_t begin = size();
  RowEncoder encoder(task, *options_.tokenizer.tokenizer);
  std::optional<Progress> progress;
  if (logger.says(LogLevel::info)) {
    progress.emplace(
        Progress::Options{.label = "reading " + path, .unit = "samples"});
  }
  const TakeRow take = [&](TaskRow row) {
    samples_.push_back(
        {.id = row.id,
         .label = row.label.value_or(0),
         .texts = encoder.encode(row)});
    if (progress) {
      progress->advance();
    }
  };
  const TaskFile file = task.is_multiple_choice()
      ? read_race_folder(task, path, take)
      : read_glue_file(task, path, take);
  if (progress) {
    progress->done();
  }
  if (file.rows == 0) {
    throw DataError({.what = "there are no samples", .where = path});
  }
  if (file.skipped > 0) {
    logger.warning(
        "{} damaged rows are left out of {}, the first at {}",
        file.skipped,
        path,
        file.first_skipped);
  }
  files_.push_back(
      {.path = path, .begin = begin, .end = size(), .labelled = file.labelled});
}

TaskBatch TaskData::batch(std::span<const std::int64_t> samples, double weight)
    const {
  const auto count = static_cast<std::int64_t>(samples.size());
  const std::int64_t choices = options_.task.choices;
  const std::vector<std::int64_t> shape{
      count * choices,
      options_.sequence_length};
  TaskBatch batch;
  batch.input.tokens = at::empty(shape, at::kLong);
  batch.input.token_types = at::empty(shape, at::kLong);
  batch.input.mask = at::empty(shape, at::kLong);
  const bool regression = options_.task.is_regression();
  batch.labels = at::zeros({count}, regression ? at::kFloat : at::kLong);
  batch.weights = at::zeros({count}, at::kFloat);
  const EncodedTexts nothing;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t place = samples[static_cast<std::size_t>(i)];
    const Sample* sample = place == no_sample ? nullptr : &at(place);
    for (std::int64_t choice = 0; choice < choices; ++choice) {
      const std::int64_t row = i * choices + choice;
      write_sample(
          sample ? sample->texts[static_cast<std::size_t>(choice)] : nothing,
          options_.tokenizer,
          {row_of(batch.input.tokens, row),
           row_of(batch.input.token_types, row),
           row_of(batch.input.mask, row)});
    }
    if (!sample) {
      continue;
    }
    batch.weights.mutable_data_ptr<float>()[i] = static_cast<float>(weight);
    if (regression) {
      batch.labels.mutable_data_ptr<float>()[i] =
          static_cast<float>(sample->label);
    } else {
      batch.labels.mutable_data_ptr<std::int64_t>()[i] =
          static_cast<std::int64_t>(sample->label);
    }
  }
  return batch;
}

} // namespace cairn::evaluate
