#include "checkpoints/tensors/lazy_operations.h"

#include "checkpoints/tensors/named_tensors.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace cairn::checkpoints {

namespace {

std::size_t index(std::int64_t dim) {
  return static_cast<std::size_t>(dim);
}

/// Gives all parts the type of the first.
void give_one_type(std::vector<LazyTensor>& parts) {
  const at::ScalarType type = parts.front().type;
  for (LazyTensor& part : parts) {
    part = as_type(std::move(part), type);
  }
}

/// Reads runs of rows; a part is opened when its first row is wanted.
class RunReader {
 public:
  RunReader(
      std::shared_ptr<const std::vector<LazyTensor>> parts,
      std::shared_ptr<const std::vector<RowRun>> runs)
      : parts_(std::move(parts)),
        runs_(std::move(runs)),
        opened_(parts_->size()) {
    for (const RowRun& run : *runs_) {
      starts_.push_back(rows_);
      rows_ += run.count;
    }
  }

  at::Tensor operator()(std::int64_t begin, std::int64_t end) {
    std::size_t run = begin >= rows_ ? runs_->size() : run_at(begin);
    if (run == runs_->size() || end <= starts_[run] + (*runs_)[run].count) {
      return part_of(std::min(run, runs_->size() - 1), begin, end);
    }
    std::vector<std::int64_t> shape = parts_->front().shape;
    shape[0] = end - begin;
    at::Tensor result = at::empty(shape, parts_->front().type);
    for (std::int64_t at = begin; at < end; ++run) {
      const std::int64_t upto =
          std::min(end, starts_[run] + (*runs_)[run].count);
      result.narrow(0, at - begin, upto - at).copy_(part_of(run, at, upto));
      at = upto;
    }
    return result;
  }

 private:
  std::size_t run_at(std::int64_t row) const {
    return static_cast<std::size_t>(
        std::ranges::upper_bound(starts_, row) - starts_.begin() - 1);
  }
  at::Tensor part_of(std::size_t number, std::int64_t begin, std::int64_t end) {
    const RowRun& run = (*runs_)[number];
    LazyTensor::Rows& rows = opened_[run.part];
    if (!rows) {
      rows = (*parts_)[run.part].open();
    }
    const std::int64_t shift = run.begin - starts_[number];
    return rows(begin + shift, end + shift);
  }

  std::shared_ptr<const std::vector<LazyTensor>> parts_;
  std::shared_ptr<const std::vector<RowRun>> runs_;
  std::vector<LazyTensor::Rows> opened_;
  std::vector<std::int64_t> starts_;
  std::int64_t rows_ = 0;
};

} // namespace

LazyTensor gathered(std::vector<LazyTensor> parts, std::vector<RowRun> runs) {
  give_one_type(parts);
  std::erase_if(runs, [](const RowRun& run) { return run.count == 0; });
  if (runs.empty()) {
    runs.emplace_back();
  }
  LazyTensor result;
  result.type = parts.front().type;
  result.shape = parts.front().shape;
  result.shape[0] = 0;
  for (const RowRun& run : runs) {
    result.shape[0] += run.count;
  }
  result.open =
      [parts =
           std::make_shared<const std::vector<LazyTensor>>(std::move(parts)),
       runs = std::make_shared<const std::vector<RowRun>>(std::move(
           runs))]() -> LazyTensor::Rows { return RunReader(parts, runs); };
  return result;
}

LazyTensor changed(
    LazyTensor tensor,
    at::ScalarType type,
    std::vector<std::int64_t> shape,
    std::function<at::Tensor(at::Tensor)> change) {
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.open = [open = std::move(tensor.open),
                 change = std::move(change)]() -> LazyTensor::Rows {
    return [rows = open(), change](std::int64_t begin, std::int64_t end) {
      return change(rows(begin, end));
    };
  };
  return tensor;
}

LazyTensor transposed(LazyTensor tensor) {
  if (tensor.shape.size() != 2) {
    return tensor;
  }
  LazyTensor result;
  result.type = tensor.type;
  result.shape = {tensor.shape[1], tensor.shape[0]};
  result.open = [tensor = std::move(tensor)]() -> LazyTensor::Rows {
    return [whole = tensor.load()](std::int64_t begin, std::int64_t end) {
      return whole.narrow(1, begin, end - begin).t();
    };
  };
  return result;
}

LazyTensor stacked(std::vector<LazyTensor> parts) {
  std::vector<RowRun> runs;
  for (LazyTensor& part : parts) {
    runs.push_back({runs.size(), 0, 1});
    LazyTensor row;
    row.type = part.type;
    row.shape = part.shape;
    row.shape.insert(row.shape.begin(), 1);
    row.open = [part]() -> LazyTensor::Rows {
      return [part](std::int64_t begin, std::int64_t end) {
        return part.load().unsqueeze(0).narrow(0, begin, end - begin);
      };
    };
    part = std::move(row);
  }
  return gathered(std::move(parts), std::move(runs));
}

LazyTensor row_of(LazyTensor tensor, std::int64_t index) {
  LazyTensor row;
  row.type = tensor.type;
  row.shape.assign(tensor.shape.begin() + 1, tensor.shape.end());
  row.open = [tensor = std::move(tensor), index]() -> LazyTensor::Rows {
    return
        [whole = tensor.open()(index, index + 1)[0]](
            std::int64_t begin,
            std::int64_t end) { return whole.narrow(0, begin, end - begin); };
  };
  return row;
}

LazyTensor sliced(
    LazyTensor tensor,
    std::int64_t dim,
    std::int64_t begin,
    std::int64_t end) {
  if (begin == 0 && end == tensor.shape[index(dim)]) {
    return tensor;
  }
  if (dim == 0) {
    return gathered({std::move(tensor)}, {{0, begin, end - begin}});
  }
  std::vector<std::int64_t> shape = tensor.shape;
  shape[index(dim)] = end - begin;
  const at::ScalarType type = tensor.type;
  return changed(
      std::move(tensor),
      type,
      std::move(shape),
      [=](const at::Tensor& rows) {
        return rows.narrow(dim, begin, end - begin);
      });
}

LazyTensor elements(
    const LazyTensor& tensor,
    std::int64_t begin,
    std::int64_t end) {
  LazyTensor result;
  result.type = tensor.type;
  result.shape = {end - begin};
  result.open = [open = tensor.open,
                 row = std::max<std::int64_t>(1, tensor.row_elements()),
                 first = begin]() -> LazyTensor::Rows {
    return [rows = open(), row, first](std::int64_t from, std::int64_t to) {
      const std::int64_t top = (first + from) / row;
      const std::int64_t bottom = (first + to + row - 1) / row;
      return rows(top, std::max(top, bottom))
          .reshape({-1})
          .narrow(0, first + from - top * row, to - from);
    };
  };
  return result;
}

LazyTensor reshaped(LazyTensor tensor, std::vector<std::int64_t> shape) {
  LazyTensor result;
  result.type = tensor.type;
  result.shape = shape;
  result.open = [open = std::move(tensor.open),
                 shape = std::move(shape),
                 row = result.row_elements()]() -> LazyTensor::Rows {
    return [rows = open(), shape, row](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> part = shape;
      if (!part.empty()) {
        part[0] = end - begin;
      }
      return rows(begin * row, end * row).reshape(part);
    };
  };
  return result;
}

LazyTensor rows_repeating_last(
    LazyTensor tensor,
    std::int64_t begin,
    std::int64_t end) {
  const std::int64_t rows = tensor.shape[0];
  if (end <= rows) {
    return sliced(std::move(tensor), 0, begin, end);
  }
  const std::int64_t there = std::max<std::int64_t>(0, rows - begin);
  std::vector<RowRun> runs{{0, begin, there}};
  runs.resize(index(1 + end - begin - there), {0, rows - 1, 1});
  return gathered({std::move(tensor)}, std::move(runs));
}

LazyTensor rows_then_zeros(LazyTensor tensor, std::int64_t rows) {
  if (rows <= tensor.shape[0]) {
    return tensor;
  }
  LazyTensor zeros;
  zeros.type = tensor.type;
  zeros.shape = tensor.shape;
  zeros.shape[0] = rows - tensor.shape[0];
  zeros.open = [type = zeros.type, shape = zeros.shape]() -> LazyTensor::Rows {
    return [type, shape](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> sizes = shape;
      sizes[0] = end - begin;
      return at::zeros(sizes, type);
    };
  };
  return joined({std::move(tensor), std::move(zeros)}, 0);
}

LazyTensor joined(std::vector<LazyTensor> parts, std::int64_t dim) {
  if (parts.size() == 1) {
    return std::move(parts.front());
  }
  if (dim == 0) {
    std::vector<RowRun> runs;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      runs.push_back({i, 0, parts[i].shape[0]});
    }
    return gathered(std::move(parts), std::move(runs));
  }
  give_one_type(parts);
  LazyTensor whole;
  whole.type = parts.front().type;
  whole.shape = parts.front().shape;
  whole.shape[index(dim)] = 0;
  for (const LazyTensor& part : parts) {
    whole.shape[index(dim)] += part.shape[index(dim)];
  }
  whole.open = [parts = std::move(parts), dim]() -> LazyTensor::Rows {
    std::vector<LazyTensor::Rows> opened;
    for (const LazyTensor& part : parts) {
      opened.push_back(part.open());
    }
    return [opened, dim](std::int64_t begin, std::int64_t end) {
      std::vector<at::Tensor> rows;
      for (const LazyTensor::Rows& part : opened) {
        rows.push_back(part(begin, end));
      }
      return at::cat(rows, dim);
    };
  };
  return whole;
}

LazyTensor interleaved(std::vector<LazyTensor> parts, std::int64_t groups) {
  std::vector<RowRun> runs;
  for (std::int64_t group = 0; group < groups; ++group) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t size = parts[i].shape[0] / groups;
      runs.push_back({i, group * size, size});
    }
  }
  return gathered(std::move(parts), std::move(runs));
}

LazyTensor deinterleaved(
    LazyTensor tensor,
    std::int64_t groups,
    const std::vector<std::int64_t>& parts,
    std::size_t index) {
  const auto place = static_cast<std::ptrdiff_t>(index);
  const std::int64_t begin =
      std::accumulate(parts.begin(), parts.begin() + place, std::int64_t{0});
  const std::int64_t all = tensor.shape[0] / groups;
  std::vector<RowRun> runs;
  for (std::int64_t group = 0; group < groups; ++group) {
    runs.push_back({0, group * all + begin, parts[index]});
  }
  return gathered({std::move(tensor)}, std::move(runs));
}

} // namespace cairn::checkpoints
