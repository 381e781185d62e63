#include "bert/run_folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <cairn/base/file.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>

namespace bert {
namespace {

namespace fs = std::filesystem;

/// bert_pretrain.DATE.ID: a time, and a number that tells apart two runs of one
/// second.
std::string name_of(std::time_t time, std::uint64_t id) {
  const std::string letters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::tm date{};
  ::gmtime_r(&time, &date);
  std::string name = "bert_pretrain";
  for (const int part :
       {1900 + date.tm_year,
        1 + date.tm_mon,
        date.tm_mday,
        date.tm_hour,
        date.tm_min,
        date.tm_sec}) {
    name += '.' + std::to_string(part);
  }
  name += '.';
  for (int i = 0; i < 8; ++i, id /= letters.size()) {
    name += letters[id % letters.size()];
  }
  return name;
}

/// Rank 0's choice, on all ranks.
std::string agreed_name(const cairn::distributed::World& world) {
  std::random_device random;
  const auto id = std::uniform_int_distribution<std::int64_t>(0)(random);
  const at::Tensor choice =
      at::tensor({static_cast<std::int64_t>(std::time(nullptr)), id})
          .to(at::Device(world.device_name()));
  world.group().broadcast(choice, 0).wait();
  return name_of(
      choice[0].item<std::int64_t>(),
      static_cast<std::uint64_t>(choice[1].item<std::int64_t>()));
}

/// Writes the output of `git …` to the file; writes nothing outside a
/// repository.
void write_git(const std::string& arguments, const fs::path& file) {
  const auto close = [](FILE* pipe) { ::pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> pipe(
      ::popen(("git " + arguments + " 2>/dev/null").c_str(), "r"),
      close);
  std::string text;
  std::array<char, 4096> part{};
  while (pipe) {
    const std::size_t size =
        std::fread(part.data(), 1, part.size(), pipe.get());
    if (size == 0) {
      break;
    }
    text.append(part.data(), size);
  }
  cairn::write_file_atomically(file, text);
}

} // namespace

RunFolder::RunFolder(
    const Options& options,
    const cairn::distributed::World& world)
    : world_(world), every_(options.log_every) {
  const bool fresh = options.load_checkpoint_dir.empty();
  path_ = fresh ? fs::path(options.checkpoint_dir) / agreed_name(world)
                : fs::path(options.load_checkpoint_dir);
  if (world.rank() != 0) {
    return;
  }
  if (fresh) {
    fs::create_directories(path_);
    cairn::write_file_atomically(path_ / "hparams.json", options.json());
    write_git("log -1 --format=%H", path_ / "githash.log");
    write_git("diff", path_ / "gitdiff.log");
    std::printf("run folder: %s\n", path_.c_str());
  }
  fs::create_directories(path_ / "tb_dir");
  curve_ = std::make_unique<cairn::monitor::EventFile>(
      cairn::monitor::EventFile::Options{.folder = path_ / "tb_dir"});
}

void RunFolder::log(std::int64_t step, const at::Tensor& loss) {
  const at::Tensor value = loss.detach().to(at::kFloat);
  sum_ = count_++ == 0 ? value.clone() : sum_ + value;
  if (step % every_ != 0) {
    return;
  }
  world_.group().all_reduce(sum_, cairn::distributed::ReduceOp::mean).wait();
  const double mean = sum_.item<double>() / static_cast<double>(count_);
  count_ = 0;
  if (world_.rank() == 0) {
    std::printf("step %lld: loss %.4f\n", static_cast<long long>(step), mean);
    std::fflush(stdout);
    const cairn::monitor::Scalar point{"Train/loss", mean, step};
    curve_->write({&point, 1});
  }
}

} // namespace bert
