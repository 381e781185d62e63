#include "evaluate/finetune/glue_format.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <string>

namespace cairn::evaluate {

const GlueFormat& glue_format(std::string_view task) {
  static const GlueColumns pair_of_four{
      .counts = {4},
      .text_a = 1,
      .text_b = 2,
      .label = 3,
      .id = 0};
  static const GlueColumns pair_of_three{
      .counts = {3},
      .text_a = 1,
      .text_b = 2,
      .id = 0};
  static const GlueColumns index_and_text{.counts = {2}, .text_a = 1, .id = 0};
  static const std::vector<GlueFormat> formats{
      // train.tsv has one annotator's label before the gold label, dev files
      // have five.
      {.task = "MNLI",
       .labelled =
           {.counts = {12, 16},
            .text_a = 8,
            .text_b = 9,
            .label = 11,
            .id = 0,
            .label_is_last = true},
       .test = {.counts = {10}, .text_a = 8, .text_b = 9, .id = 0}},
      {.task = "QQP",
       .labelled =
           {.counts = {6}, .text_a = 3, .text_b = 4, .label = 5, .id = 0},
       .test = pair_of_three,
       .skips_damaged = true},
      {.task = "QNLI", .labelled = pair_of_four, .test = pair_of_three},
      {.task = "RTE", .labelled = pair_of_four, .test = pair_of_three},
      {.task = "SST-2",
       .labelled = {.counts = {2}, .text_a = 0, .label = 1},
       .test = index_and_text,
       .test_has_index = true},
      {.task = "CoLA",
       .labelled = {.counts = {4}, .text_a = 3, .label = 1},
       .labelled_header = false,
       .test = index_and_text},
      {.task = "STS-B",
       .labelled =
           {.counts = {10}, .text_a = 7, .text_b = 8, .label = 9, .id = 0},
       .test = {.counts = {9}, .text_a = 7, .text_b = 8, .id = 0}},
      {.task = "MRPC",
       .labelled = {.counts = {5}, .text_a = 3, .text_b = 4, .label = 0},
       .test = {.counts = {5}, .text_a = 3, .text_b = 4, .id = 0},
       .test_has_index = true}};
  const auto found = std::ranges::find(formats, task, &GlueFormat::task);
  if (found == formats.end()) {
    throw InternalError(
        {.what = "no format is known for the task",
         .values = std::string(task)});
  }
  return *found;
}

} // namespace cairn::evaluate
