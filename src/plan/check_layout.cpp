#include "plan/check_layout.h"

#include "plan/block_time.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::plan {
namespace {

[[noreturn]] void refuse(std::string what, std::string values = "") {
  throw ConfigError(
      {.what = std::move(what),
       .where = "the layout",
       .values = std::move(values)});
}

} // namespace

void check_layout(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster) {
  const model::ModelDescription& d = training.model;
  const bool t5 = model::kind_of(d.family) == model::ModelKind::t5;
  if (t5 && (layout.context > 1 || model::has_experts(d))) {
    refuse("T5 has neither context parallel ranks nor experts");
  }
  if (t5 != (training.decoder_sequence > 0)) {
    refuse("T5 has a decoder's length of its own, and only T5");
  }
  if (peak_flops(training, cluster.gpu) <= 0) {
    throw ConfigError(
        {.what = "the cluster's description does not say how fast its GPUs "
                 "compute in fp32",
         .where = cluster.name,
         .remedy = "add gpu.tflops_32bit, or plan with --bf16 or --fp16"});
  }
  for (const std::int64_t degree :
       {layout.gpus,
        layout.tensor,
        layout.pipeline,
        layout.context,
        layout.expert,
        layout.chunks,
        layout.micro_batch,
        layout.global_batch,
        layout.recomputed_together}) {
    if (degree < 1) {
      refuse("a degree or a batch below 1");
    }
  }
  if (training.sequence < 1) {
    refuse("the length of a sample is not said");
  }
  const std::int64_t model_ranks =
      layout.tensor * layout.pipeline * layout.context;
  if (layout.gpus % model_ranks != 0) {
    refuse(
        "the degrees do not divide the ranks",
        fmt::format(
            "{} ranks, {} tensor x {} pipeline x {} context",
            layout.gpus,
            layout.tensor,
            layout.pipeline,
            layout.context));
  }
  if (layout.global_batch % (layout.micro_batch * layout.data()) != 0) {
    refuse(
        "the batch does not divide",
        fmt::format(
            "global batch {}, micro batch {} x {} data parallel ranks",
            layout.global_batch,
            layout.micro_batch,
            layout.data()));
  }
  if (d.heads % layout.tensor != 0 || d.ffn % layout.tensor != 0) {
    refuse(
        "the model does not divide over the tensor parallel ranks",
        fmt::format(
            "{} heads, {} columns, {} ranks",
            d.heads,
            d.ffn,
            layout.tensor));
  }
  if (training.sequence % layout.context != 0) {
    refuse("a sample does not divide over the context parallel ranks");
  }
  if (layout.expert > 1 &&
      layout.data() * layout.context % layout.expert != 0) {
    refuse("the data parallel ranks do not divide over the experts' ranks");
  }
  if (layout.zero_stage < 0 || layout.zero_stage > 3) {
    refuse("there is no such ZeRO stage", fmt::format("{}", layout.zero_stage));
  }
}

} // namespace cairn::plan
