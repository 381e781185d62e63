#include "cuda_on_cpu.h"

#include "kernels/internal/cuda/cuda.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <stdexcept>
#include <vector>

dim3 threadIdx(0), blockIdx(0), blockDim(0), gridDim(0);

namespace cuda_on_cpu {
namespace {

constexpr unsigned warp_size = 32;

/// Threads that wait for each other.
struct Gate {
  unsigned here = 0;
  unsigned long turn = 0;
};

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};

/// One thread of a block, with a stack of its own.
struct Fiber {
  jmp_buf place; ///< where it goes on
  std::vector<char> stack = std::vector<char>(std::size_t{64} << 10);
  bool started = false;
  bool done = false;
  std::deque<std::vector<Copy>> copies{}; ///< by group, the last one unended
};

/// The block that runs now.
struct Block {
  std::vector<Fiber> fibers;
  std::vector<Gate> warps;
  std::vector<float> values;                       ///< exchanged within warps
  std::vector<std::array<std::uint32_t, 8>> words; ///< likewise
  std::vector<const void*> places;                 ///< likewise
  std::vector<std::max_align_t> memory;
  Gate all;
  Gate first; ///< some first threads
  unsigned current = 0;
  jmp_buf scheduler;
  const std::function<void()>* thread = nullptr;
  std::exception_ptr failure;
};

Block* block = nullptr;

/// Lets the next fiber run.
void yield() {
  if (_setjmp(block->fibers[block->current].place) == 0) {
    _longjmp(block->scheduler, 1);
  }
}

void wait_at(Gate& gate, unsigned count) {
  if (++gate.here == count) {
    gate.here = 0;
    ++gate.turn;
    return;
  }
  const unsigned long turn = gate.turn;
  while (gate.turn == turn) {
    yield();
  }
}

void run_fiber() {
  try {
    (*block->thread)();
  } catch (...) {
    block->failure = std::current_exception();
  }
  block->fibers[block->current].done = true;
  _longjmp(block->scheduler, 1);
}

/// Starts a fiber on its stack.
void start(Fiber& fiber) {
  fiber.started = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.data();
  context.uc_stack.ss_size = fiber.stack.size();
  context.uc_link = nullptr;
  makecontext(&context, run_fiber, 0);
  setcontext(&context);
}

/// Runs the fiber until it waits or ends.
void resume(unsigned number) {
  block->current = number;
  Fiber& fiber = block->fibers[number];
  if (_setjmp(block->scheduler) == 0) {
    if (fiber.started) {
      _longjmp(fiber.place, 1);
    }
    start(fiber);
  }
}

void run_block(dim3 threads) {
  std::memset(
      block->memory.data(),
      0xa5,
      block->memory.size() * sizeof block->memory[0]);
  for (Fiber& fiber : block->fibers) {
    fiber.started = false;
    fiber.done = false;
    fiber.copies = {{}};
  }
  for (bool some_left = true; some_left && !block->failure;) {
    some_left = false;
    for (unsigned i = 0; i < block->fibers.size(); ++i) {
      if (!block->fibers[i].done) {
        threadIdx = dim3(
            i % threads.x,
            i / threads.x % threads.y,
            i / threads.x / threads.y);
        resume(i);
        some_left |= !block->fibers[i].done;
      }
    }
  }
}

} // namespace

void run(
    dim3 blocks,
    dim3 threads,
    std::size_t shared_bytes,
    const std::function<void()>& thread) {
  const unsigned count = threads.x * threads.y * threads.z;
  if (count == 0 || count > 1024 || count % warp_size != 0 || blocks.x == 0 ||
      blocks.y == 0 || blocks.y > 65535) {
    throw std::logic_error("no GPU takes such a block");
  }
  static Block only;
  block = &only;
  only.fibers.resize(count);
  only.warps.assign(count / warp_size, {});
  only.values.assign(count, 0);
  only.words.assign(count, {});
  only.places.assign(count, nullptr);
  only.memory.resize(shared_bytes / sizeof(std::max_align_t) + 1);
  only.all = {};
  only.first = {};
  only.thread = &thread;
  only.failure = nullptr;
  gridDim = blocks;
  blockDim = threads;
  for (unsigned y = 0; y < blocks.y; ++y) {
    for (unsigned x = 0; x < blocks.x && !only.failure; ++x) {
      blockIdx = dim3(x, y, 0);
      run_block(threads);
    }
  }
  if (only.failure) {
    std::rethrow_exception(only.failure);
  }
}

void* shared_memory() {
  return block->memory.data();
}

void copy_later(void* to, const void* from, std::size_t bytes) {
  block->fibers[block->current].copies.back().push_back({to, from, bytes});
}

void end_of_copies() {
  block->fibers[block->current].copies.emplace_back();
}

void wait_for_copies(std::size_t left) {
  auto& groups = block->fibers[block->current].copies;
  for (; groups.size() > left + 1; groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
  }
}

void wait_for_block() {
  wait_at(block->all, static_cast<unsigned>(block->fibers.size()));
}

void wait_for_first(unsigned count) {
  wait_at(block->first, count);
}

void let_others_run() {
  yield();
}

float exchange(float value, int mask) {
  const unsigned me = block->current;
  Gate& warp = block->warps[me / warp_size];
  block->values[me] = value;
  wait_at(warp, warp_size);
  const float other = block->values[me ^ static_cast<unsigned>(mask)];
  wait_at(warp, warp_size);
  return other;
}

void gather(const std::uint32_t* own, std::size_t count, std::uint32_t* all) {
  const unsigned me = block->current;
  const unsigned first = me / warp_size * warp_size;
  Gate& warp = block->warps[me / warp_size];
  std::copy_n(own, count, block->words[me].begin());
  wait_at(warp, warp_size);
  for (unsigned i = 0; i < warp_size; ++i) {
    std::copy_n(block->words[first + i].begin(), count, all + i * count);
  }
  wait_at(warp, warp_size);
}

void gather(const void* place, const void** all) {
  const unsigned me = block->current;
  Gate& warp = block->warps[me / warp_size];
  block->places[me] = place;
  wait_at(warp, warp_size);
  std::copy_n(
      block->places.begin() + me / warp_size * warp_size,
      warp_size,
      all);
  wait_at(warp, warp_size);
}

} // namespace cuda_on_cpu

namespace cairn::kernels::cuda {

bool has_kernels() {
  return true;
}

void* current_stream(int) {
  return nullptr;
}

bool is_recording(int) {
  return false;
}

} // namespace cairn::kernels::cuda
