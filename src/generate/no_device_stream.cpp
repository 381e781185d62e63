#include "generate/available_memory.h"
#include "generate/device_stream.h"

#include <utility>

namespace cairn::generate {
namespace {

class WorkOnCpu final : public Recording {
 public:
  explicit WorkOnCpu(std::function<void()> work) : work_(std::move(work)) {}
  void repeat() override { work_(); }

 private:
  std::function<void()> work_;
};

class CpuStream final : public DeviceStream {
 public:
  void run(const std::function<void()>& work) override { work(); }
  std::unique_ptr<Recording> record(
      const std::function<void()>& work) override {
    return std::make_unique<WorkOnCpu>(work);
  }
  void wait() override {}
  void* handle() const override { return nullptr; }
};

} // namespace

std::unique_ptr<DeviceStream> make_stream(at::Device) {
  return std::make_unique<CpuStream>();
}

std::int64_t free_bytes(at::Device) {
  return available_memory();
}

} // namespace cairn::generate
