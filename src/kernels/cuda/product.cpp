#include "kernels/internal/cuda/product.h"

#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/product_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace cairn::kernels::cuda {
namespace {

/// The properties of a product on which the choice of an algorithm depends.
struct Shape {
  int device;
  std::int64_t rows, columns, depth;
  std::int64_t left_step, right_step;
  Element element, result_element;
  Finish finish;
  bool left_transposed, right_transposed, add, addend;
  int left_type, right_type;
  bool exact_sums;
  int alignment;

  auto operator<=>(const Shape&) const = default;
};

int type_of(Element element) {
  return element == Element::bf16 ? lt_bf16
      : element == Element::fp16  ? lt_fp16
                                  : lt_fp32;
}

int type_of(Fp8 format) {
  return format == Fp8::e4m3 ? lt_e4m3 : lt_e5m2;
}

int left_type(const Product& product) {
  return product.fp8 ? type_of(product.fp8->left) : type_of(product.element);
}

int right_type(const Product& product) {
  return product.fp8 ? type_of(product.fp8->right) : type_of(product.element);
}

/// Bytes of which all addresses are multiples: 128, as the memory of weights
/// has it, or 16.
int alignment_of(const Product& product) {
  const auto all = reinterpret_cast<std::uintptr_t>(product.left.data) |
      reinterpret_cast<std::uintptr_t>(product.right.data) |
      reinterpret_cast<std::uintptr_t>(product.result) |
      reinterpret_cast<std::uintptr_t>(product.addend) |
      reinterpret_cast<std::uintptr_t>(product.sums);
  return all % 128 == 0 ? 128 : 16;
}

int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

Shape shape_of(const Product& product) {
  return {
      current_device(),
      product.rows,
      product.columns,
      product.depth,
      product.left.step,
      product.right.step,
      product.element,
      product.result_element,
      product.finish,
      product.left.transposed,
      product.right.transposed,
      product.add,
      product.addend != nullptr,
      left_type(product),
      right_type(product),
      product.fp8 && product.fp8->exact_sums,
      alignment_of(product)};
}

/// A shape as a line of text, without its device.
std::string text_of(const Shape& shape) {
  std::ostringstream text;
  const auto element = [](Element each) { return static_cast<int>(each); };
  text << shape.rows << 'x' << shape.columns << 'x' << shape.depth << " steps "
       << shape.left_step << ' ' << shape.right_step << " types "
       << shape.left_type << ' ' << shape.right_type << ' '
       << element(shape.element) << ' ' << element(shape.result_element)
       << " finish " << static_cast<int>(shape.finish) << " transposed "
       << shape.left_transposed << shape.right_transposed << " add "
       << shape.add << " exact " << shape.exact_sums << " alignment "
       << shape.alignment << (shape.addend ? " addend" : "");
  return text.str();
}

LtEpilogue epilogue_of(Finish finish) {
  switch (finish) {
    case Finish::nothing:
      return LtEpilogue::nothing;
    case Finish::add_bias:
      return LtEpilogue::bias;
    case Finish::gelu:
      return LtEpilogue::gelu_bias_kept;
    case Finish::gelu_gradient:
      return LtEpilogue::gelu_gradient;
    case Finish::gelu_alone:
      return LtEpilogue::gelu_bias;
  }
  return LtEpilogue::nothing;
}

using Object = std::unique_ptr<void, int (*)(LtObject)>;

/// A product as cuBLASLt describes it. Its matrices lie column after column, so
/// the transposed product is asked for: its first factor is our right one.
class Description {
 public:
  Description(const CublasLt& lt, const Product& product)
      : lt_(lt),
        product_(nullptr, lt.product_destroy),
        a_(layout(
            right_type(product),
            product.columns,
            product.depth,
            product.right)),
        b_(layout(
            left_type(product),
            product.depth,
            product.rows,
            product.left)),
        d_(layout(
            type_of(product.result_element),
            product.columns,
            product.rows,
            {nullptr, product.columns, false})),
        alignment_(static_cast<std::uint32_t>(alignment_of(product))) {
    LtObject made = nullptr;
    lt.product_create(&made, lt_compute_fp32, lt_fp32);
    product_.reset(made);
    set(LtAttribute::transpose_a, int{product.right.transposed});
    set(LtAttribute::transpose_b, int{product.left.transposed});
    set(LtAttribute::epilogue, static_cast<int>(epilogue_of(product.finish)));
    if (product.sums != nullptr) {
      set(LtAttribute::kept_step, product.columns);
    }
    if (product.fp8) {
      set(LtAttribute::fast_sums, std::int8_t{!product.fp8->exact_sums});
    }
    take_pointers(product);
  }

  /// Takes over what is part of the description, but not of the shape.
  void take_pointers(const Product& product) {
    if (product.bias != nullptr) {
      set(LtAttribute::bias_pointer, product.bias);
    }
    if (product.sums != nullptr) {
      set(LtAttribute::kept_pointer, product.sums);
    }
    if (product.fp8) {
      set(LtAttribute::a_unit_pointer, product.fp8->right_unit);
      set(LtAttribute::b_unit_pointer, product.fp8->left_unit);
    }
  }

  /// Algorithms that may compute it, the most promising one first.
  std::vector<LtAlgorithm> proposals(LtHandle handle) const {
    LtObject made = nullptr;
    lt_.preference_create(&made);
    const Object preference(made, lt_.preference_destroy);
    const auto prefer = [&](LtPreference what, const auto& value) {
      lt_.preference_set(made, static_cast<int>(what), &value, sizeof value);
    };
    prefer(LtPreference::workspace_bytes, std::uint64_t{product_workspace});
    for (const auto which :
         {LtPreference::alignment_a,
          LtPreference::alignment_b,
          LtPreference::alignment_c,
          LtPreference::alignment_d}) {
      prefer(which, alignment_);
    }
    std::array<LtProposal, 16> found{};
    int count = 0;
    if (lt_.propose(
            handle,
            product_.get(),
            a_.get(),
            b_.get(),
            d_.get(),
            d_.get(),
            made,
            static_cast<int>(found.size()),
            found.data(),
            &count) != 0) {
      count = 0;
    }
    std::vector<LtAlgorithm> algorithms;
    for (const LtProposal& each :
         std::span(found).first(static_cast<std::size_t>(count))) {
      if (each.state == 0) {
        algorithms.push_back(each.algorithm);
      }
    }
    return algorithms;
  }

  bool run(
      LtHandle handle,
      const Product& product,
      const LtAlgorithm& algorithm,
      void* workspace,
      cudaStream_t stream) const {
    const float alpha = 1;
    const bool adds = product.add || product.addend != nullptr;
    const float beta = adds ? 1 : 0;
    return lt_.multiply(
               handle,
               product_.get(),
               &alpha,
               product.right.data,
               a_.get(),
               product.left.data,
               b_.get(),
               &beta,
               product.addend != nullptr ? product.addend : product.result,
               d_.get(),
               product.result,
               d_.get(),
               &algorithm,
               workspace,
               product_workspace,
               stream) == 0;
  }

 private:
  template <class Value>
  void set(LtAttribute attribute, const Value& value) {
    lt_.product_set(
        product_.get(),
        static_cast<int>(attribute),
        &value,
        sizeof value);
  }

  Object layout(
      int type,
      std::int64_t rows,
      std::int64_t columns,
      const Factor& factor) const {
    LtObject made = nullptr;
    lt_.layout_create(
        &made,
        type,
        static_cast<std::uint64_t>(factor.transposed ? columns : rows),
        static_cast<std::uint64_t>(factor.transposed ? rows : columns),
        factor.step);
    return {made, lt_.layout_destroy};
  }

  CublasLt lt_;
  Object product_;
  Object a_;
  Object b_;
  Object d_;
  std::uint32_t alignment_;
};

/// Measures work that is queued on a stream.
class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    cudaEventCreate(&begin_);
    cudaEventCreate(&end_);
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  template <class Work>
  double seconds(const Work& work) const {
    cudaEventRecord(begin_, stream_);
    work();
    cudaEventRecord(end_, stream_);
    cudaEventSynchronize(end_);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin_, end_);
    return milliseconds / 1e3;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

/// The number of the fastest of `count` ways: try_way(number) queues one and
/// says whether it works.
template <class TryWay>
std::size_t fastest_of(
    std::size_t count,
    const TryWay& try_way,
    cudaStream_t stream) {
  const Stopwatch stopwatch(stream);
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t number = 0; number < count; ++number) {
    bool works = true;
    const auto run = [&] {
      for (int i = 0; i < 3; ++i) { // one after another, as in a training
        works &= try_way(number);
      }
    };
    run();
    for (int i = 0; i < 2 && works; ++i) {
      const double seconds = stopwatch.seconds(run);
      if (works && seconds < least) {
        least = seconds;
        best = number;
      }
    }
  }
  return best;
}

/// One shape: its description, and the algorithms that were found for it.
struct Known {
  Description description;
  std::vector<LtAlgorithm> proposals; ///< empty where cuBLASLt has none
  std::optional<LtAlgorithm> fastest{};
};

/// Everything that this process has learned of products.
struct Choices {
  std::mutex mutex;
  std::map<int, LtHandle> handles;       ///< by device; null where it failed
  std::map<int, ProductMemory> memories; ///< by device
  std::map<Shape, Known> by_shape;

  LtHandle handle(const CublasLt& lt, int device) {
    const auto [found, is_new] = handles.try_emplace(device);
    if (is_new && lt.create(&found->second) != 0) {
      found->second = nullptr;
    }
    return found->second;
  }

  ProductMemory& memory(const CublasLt& lt, int device) {
    const auto found = memories.find(device);
    if (found != memories.end()) {
      return found->second;
    }
    cudaDeviceProp gpu{};
    const bool known = cudaGetDeviceProperties(&gpu, device) == cudaSuccess;
    return memories
        .emplace(
            device,
            known ? product_memory_file(gpu.name, lt.version())
                  : std::filesystem::path())
        .first->second;
  }

  /// The entry of a shape, which describes this product's pointers from now on.
  Known& known(const CublasLt& lt, const Product& product, const Shape& shape) {
    auto found = by_shape.find(shape);
    if (found != by_shape.end()) {
      found->second.description.take_pointers(product);
      return found->second;
    }
    Known fresh{Description(lt, product), {}};
    if (LtHandle const own = handle(lt, shape.device)) {
      fresh.proposals = fresh.description.proposals(own);
    }
    return by_shape.emplace(shape, std::move(fresh)).first->second;
  }
};

Choices& choices() {
  static Choices all;
  return all;
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  return status != cudaStreamCaptureStatusNone;
}

/// True when algorithms may be tried for a product. Not for a sum: each run
/// would add.
bool may_try(const Product& product, cudaStream_t stream) {
  return !product.add &&
      pays_to_try(product.rows, product.columns, product.depth) &&
      !is_capturing(stream);
}

/// Takes over the fastest algorithm that was found for a shape by another
/// process, if there is one. Returns true when one is known.
bool recall_fastest(Choices& all, Known& known, const Shape& shape) {
  if (!known.fastest) {
    const auto number =
        all.memory(*cublas_lt(), shape.device).find(text_of(shape));
    if (number && std::cmp_less(*number, known.proposals.size())) {
      known.fastest = known.proposals[static_cast<std::size_t>(*number)];
    }
  }
  return known.fastest.has_value();
}

/// The fastest algorithm of a shape that is known, else the first. A sum has
/// that of the same product without a sum: the two differ little, and to try
/// algorithms on a sum would need a second result.
LtAlgorithm chosen_for(
    Choices& all,
    const Product& product,
    Known& known,
    void* workspace,
    cudaStream_t stream) {
  Shape shape = shape_of(product);
  if (product.add) {
    shape.add = false;
    const auto found = all.by_shape.find(shape);
    if (found != all.by_shape.end() && !known.fastest) {
      known.fastest = found->second.fastest;
    }
  } else if (
      !known.fastest && may_try(product, stream) &&
      !recall_fastest(all, known, shape)) {
    // On the real matrices, which the last run leaves as they are to be.
    const std::size_t found = fastest_of(
        known.proposals.size(),
        [&](std::size_t each) {
          return known.description.run(
              all.handle(*cublas_lt(), shape.device),
              product,
              known.proposals[each],
              workspace,
              stream);
        },
        stream);
    known.fastest = known.proposals[found];
    all.memory(*cublas_lt(), shape.device)
        .add(text_of(shape), static_cast<int>(found));
  }
  return known.fastest.value_or(known.proposals.at(0));
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

} // namespace

bool takes(const Product& product) {
  const std::int64_t whole = product.fp8 ? 16 : 8; // elements in 16 bytes
  const bool sizes = product.rows > 0 && product.columns > 0 &&
      product.depth > 0 && product.columns % whole == 0 &&
      product.left.step % whole == 0 && product.right.step % whole == 0;
  const bool narrow = product.fp8 || product.element != Element::fp32;
  const bool suits = sizes && narrow && is_aligned(product.left.data) &&
      is_aligned(product.right.data) && is_aligned(product.result) &&
      is_aligned(product.bias) && is_aligned(product.sums) &&
      is_aligned(product.addend) &&
      (!product.fp8 ||
       (is_aligned(product.fp8->left_unit) &&
        is_aligned(product.fp8->right_unit))) &&
      cublas_lt() != nullptr;
  if (!suits) {
    return false;
  }
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  return !all.known(*cublas_lt(), product, shape_of(product)).proposals.empty();
}

bool would_try(const Product& product, void* stream) {
  if (cublas_lt() == nullptr ||
      !may_try(product, static_cast<cudaStream_t>(stream))) {
    return false;
  }
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  const Shape shape = shape_of(product);
  Known& known = all.known(*cublas_lt(), product, shape);
  return !known.proposals.empty() && !recall_fastest(all, known, shape);
}

const char* multiply(
    const Product& product,
    Algorithm algorithm,
    void* workspace,
    void* stream_pointer) {
  auto* const stream = static_cast<cudaStream_t>(stream_pointer);
  const CublasLt& lt = *cublas_lt();
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  const Shape shape = shape_of(product);
  LtHandle const handle = all.handle(lt, shape.device);
  Known& known = all.known(lt, product, shape);
  const auto run = [&](const LtAlgorithm& each) {
    return known.description.run(handle, product, each, workspace, stream);
  };
  const LtAlgorithm first = known.proposals.at(0);
  if (algorithm == Algorithm::fastest) {
    if (run(chosen_for(all, product, known, workspace, stream))) {
      return nullptr;
    }
    known.fastest = first; // that of the product without a sum does not do here
  }
  return run(first) ? nullptr : "cuBLASLt could not multiply";
}

std::optional<int> known_way(const std::string& what) {
  if (cublas_lt() == nullptr) {
    return std::nullopt;
  }
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  return all.memory(*cublas_lt(), current_device()).find(what);
}

void try_ways(
    const std::string& what,
    std::span<const std::function<void()>> ways,
    void* stream_pointer) {
  auto* const stream = static_cast<cudaStream_t>(stream_pointer);
  if (cublas_lt() == nullptr || is_capturing(stream)) {
    return;
  }
  // Not under the lock: the ways multiply.
  const std::size_t found = fastest_of(
      ways.size(),
      [&](std::size_t number) {
        ways[number]();
        return true;
      },
      stream);
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  all.memory(*cublas_lt(), current_device()).add(what, static_cast<int>(found));
}

} // namespace cairn::kernels::cuda
