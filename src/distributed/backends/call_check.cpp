#include "distributed/backends/call_check.h"

#include "distributed/backends/wire_dtype.h"
#include "distributed/internal/comms_log.h"

#include <c10/core/ScalarType.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace cairn::distributed {
namespace {

std::string shape_of(const at::Tensor& x) {
  return fmt::format("[{}]", fmt::join(x.sizes(), ", "));
}

std::string dtype_name(c10::ScalarType dtype) {
  return c10::getDtypeNames(dtype).first;
}

} // namespace

std::string site_text(const std::source_location& site) {
  const std::string_view path = site.file_name();
  return fmt::format(
      "{}:{}",
      path.substr(path.find_last_of('/') + 1),
      site.line());
}

CallCheck::CallCheck(
    const detail::GroupCore& core,
    std::string operation,
    const std::source_location& site)
    : core_(core), operation_(std::move(operation)), site_(site_text(site)) {}

void CallCheck::refuse(std::string what, std::string remedy) const {
  throw CommError(
      {.what = std::move(what),
       .where = fmt::format(
           "rank {}, {} on group \"{}\" at {}",
           core_.ranks()[static_cast<std::size_t>(core_.rank)],
           operation_,
           core_.name,
           site_),
       .remedy = std::move(remedy)});
}

void CallCheck::tensors(const Tensors& tensors) const {
  for (const at::Tensor& x : tensors) {
    if (!x.defined()) {
      refuse("the tensor is undefined");
    }
    if (x.layout() != c10::kStrided || x.is_quantized()) {
      refuse("only plain (dense, not quantised) tensors can be sent");
    }
    if (!x.is_contiguous()) {
      refuse(
          fmt::format(
              "a tensor of shape {} is not contiguous (strides [{}])",
              shape_of(x),
              fmt::join(x.strides(), ", ")),
          "pass x.contiguous()");
    }
    const auto device = core_.backend->device();
    if (device && x.device().type() != *device) {
      refuse(
          fmt::format(
              "a tensor is on {}, but the {} backend moves {} tensors",
              x.device().str(),
              core_.backend->name(),
              c10::DeviceTypeName(*device, /*lower_case=*/true)),
          "move the tensor, or choose the backend of its device");
    }
  }
}

void CallCheck::reducible(const Tensors& tensors, ReduceOp op) const {
  for (const at::Tensor& x : tensors) {
    const c10::ScalarType dtype = x.scalar_type();
    if (!wire_dtype(dtype)) {
      refuse(
          fmt::format(
              "tensors of type {} cannot be reduced",
              dtype_name(dtype)),
          "fp64, fp32, bf16, fp16, fp8, bool, uint8 and signed integers can");
    }
    if (op == ReduceOp::mean && !c10::isFloatingType(dtype)) {
      refuse(
          fmt::format(
              "the mean of {} values is not one itself",
              dtype_name(dtype)),
          "reduce with sum and divide, or convert to floating point");
    }
  }
}

void CallCheck::divisible(const at::Tensor& x) const {
  if (x.dim() == 0 || x.size(0) % core_.size() != 0) {
    refuse(
        fmt::format(
            "dim 0 of shape {} cannot be cut into {} equal parts",
            shape_of(x),
            core_.size()),
        "pad it, or give the counts of each rank");
  }
}

void CallCheck::shares(
    const at::Tensor& whole,
    const at::Tensor& part,
    std::string_view whole_name,
    std::string_view part_name) const {
  if (whole.scalar_type() != part.scalar_type()) {
    refuse(fmt::format(
        "{} is {}, but {} is {}",
        whole_name,
        dtype_name(whole.scalar_type()),
        part_name,
        dtype_name(part.scalar_type())));
  }
  if (whole.numel() != part.numel() * core_.size()) {
    refuse(fmt::format(
        "{} has {} elements, {} {}: not {} times as many",
        whole_name,
        whole.numel(),
        part_name,
        part.numel(),
        core_.size()));
  }
}

void CallCheck::counts(const Counts& counts, std::string_view name) const {
  if (counts.size() != core_.ranks().size()) {
    refuse(fmt::format(
        "{} has {} entries for {} ranks",
        name,
        counts.size(),
        core_.size()));
  }
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) {
    if (count < 0) {
      refuse(fmt::format(
          "{} holds a negative number: [{}]",
          name,
          fmt::join(counts, ", ")));
    }
    if (__builtin_add_overflow(sum, count, &sum)) {
      refuse(fmt::format(
          "the sum of {} is too large: [{}]",
          name,
          fmt::join(counts, ", ")));
    }
  }
}

void CallCheck::rows(
    const at::Tensor& x,
    std::int64_t rows,
    std::string_view name) const {
  if (x.dim() == 0 || x.size(0) != rows) {
    refuse(fmt::format(
        "dim 0 of shape {} is not {} = {}",
        shape_of(x),
        name,
        rows));
  }
}

void CallCheck::member(int rank, std::string_view name) const {
  if (rank < 0 || rank >= core_.size()) {
    refuse(fmt::format(
        "{} {} is outside the group, which has ranks 0 to {}",
        name,
        rank,
        core_.size() - 1));
  }
}

void CallCheck::other_member(int rank, std::string_view name) const {
  member(rank, name);
  if (rank == core_.rank) {
    refuse(fmt::format("{} {} is this rank itself", name, rank));
  }
}

std::vector<int> CallCheck::own_part(const std::vector<int>& ranks) const {
  std::vector<int> global;
  for (const int rank : ranks) {
    member(rank, "ranks");
    global.push_back(core_.ranks()[static_cast<std::size_t>(rank)]);
  }
  std::vector<int> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    refuse(fmt::format("a rank appears twice in [{}]", fmt::join(ranks, ", ")));
  }
  if (!std::binary_search(sorted.begin(), sorted.end(), core_.rank)) {
    refuse(fmt::format(
        "rank {} of the group is not among [{}], so it has no part in this "
        "group",
        core_.rank,
        fmt::join(ranks, ", ")));
  }
  return global;
}

CheckedCall CallCheck::record(
    const Tensors& tensors,
    std::string_view detail,
    const Counts& counts) const {
  CheckedCall record;
  record.operation = operation_;
  record.detail = detail;
  record.group = core_.name;
  record.group_key = core_.key;
  record.site = site_;
  record.sizes = counts;
  std::int64_t bytes = 0;
  for (const at::Tensor& x : tensors) {
    bytes += static_cast<std::int64_t>(x.nbytes());
    const std::string dtype = dtype_name(x.scalar_type());
    if (record.dtype.empty()) {
      record.dtype = dtype;
    } else if (record.dtype != dtype) {
      record.dtype = "mixed";
    }
    if (counts.empty()) {
      record.sizes.push_back(x.numel());
    }
  }
  record.bytes = bytes_sent(operation_, bytes, core_.size());
  record.message = message_bytes(operation_, bytes, core_.size());
  return record;
}

} // namespace cairn::distributed
