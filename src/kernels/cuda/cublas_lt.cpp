#include "kernels/cuda/cublas_lt.h"

#include <dlfcn.h>

#include <optional>

namespace cairn::kernels::cuda {
namespace {

/// Finds functions, and remembers whether one was missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}
  bool found_all() const { return found_all_; }

  template <class Function>
  void find(Function*& function, const char* name) {
    void* const symbol = dlsym(library_, name);
    found_all_ &= symbol != nullptr;
    function = reinterpret_cast<Function*>(symbol);
  }

 private:
  void* library_;
  bool found_all_ = true;
};

std::optional<CublasLt> load() {
  // By the name under which libtorch loads it.
  void* const library = dlopen("libcublasLt.so.13", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    return std::nullopt;
  }
  CublasLt lt{};
  Finder finder(library);
  finder.find(lt.version, "cublasLtGetVersion");
  finder.find(lt.create, "cublasLtCreate");
  finder.find(lt.product_create, "cublasLtMatmulDescCreate");
  finder.find(lt.product_destroy, "cublasLtMatmulDescDestroy");
  finder.find(lt.product_set, "cublasLtMatmulDescSetAttribute");
  finder.find(lt.layout_create, "cublasLtMatrixLayoutCreate");
  finder.find(lt.layout_destroy, "cublasLtMatrixLayoutDestroy");
  finder.find(lt.preference_create, "cublasLtMatmulPreferenceCreate");
  finder.find(lt.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  finder.find(lt.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  finder.find(lt.propose, "cublasLtMatmulAlgoGetHeuristic");
  finder.find(lt.multiply, "cublasLtMatmul");
  return finder.found_all() ? std::optional(lt) : std::nullopt;
}

} // namespace

const CublasLt* cublas_lt() {
  static const std::optional<CublasLt> library = load();
  return library ? &*library : nullptr;
}

} // namespace cairn::kernels::cuda
