#include "gpt2/progress.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <cstdio>

namespace gpt2 {

using Clock = std::chrono::steady_clock;

Progress::Progress(
    const cairn::config::Config& args,
    const cairn::distributed::ProcessMesh& mpu)
    : world_(mpu.world()),
      iterations_(*args.flags.training.train_iters),
      interval_(args.flags.logging.log_interval),
      fp16_(args.deepspeed.fp16.enabled),
      since_(Clock::now()) {}

void Progress::log(
    std::int64_t iteration,
    const at::Tensor& loss,
    double loss_scale) {
  const at::Tensor value = loss.detach().to(at::kFloat);
  sum_ = count_++ == 0 ? value.clone() : sum_ + value;
  if (iteration % interval_ != 0) {
    return;
  }
  world_.all_reduce(sum_, cairn::distributed::ReduceOp::mean).wait();
  const auto count = static_cast<double>(count_);
  const auto now = Clock::now();
  const std::chrono::duration<double, std::milli> took = now - since_;
  if (world_.rank() == 0) {
    fmt::print(
        " iteration {:8}/{:8} | elapsed time per iteration (ms): {:.1f} | lm "
        "loss {:.6E} |{}\n",
        iteration,
        iterations_,
        took.count() / count,
        sum_.item<double>() / count,
        fp16_ ? fmt::format(" loss scale {:.1f} |", loss_scale) : "");
    std::fflush(stdout);
  }
  count_ = 0;
  since_ = now;
}

} // namespace gpt2
