#include "kernels/cuda/text_step_plan.cuh"

#include "kernels/cuda/launch.cuh"

#include <algorithm>
#include <numeric>

namespace cairn::kernels::cuda {
namespace {

Division divided(
    int rows,
    int blocks,
    int slices,
    int slots,
    bool shares_units) {
  Division division{};
  division.rows = static_cast<unsigned>(rows);
  division.each = static_cast<unsigned>(
      (rows + unit_rows * blocks - 1) / (unit_rows * blocks));
  division.units = division.each * static_cast<unsigned>(blocks);
  division.slices = slices;
  division.rows_of_unit =
      ((static_cast<std::uint64_t>(rows) << 32U) + division.units - 1) /
      division.units;
  // As many units at a time as possible, all of them in slots of their own;
  // then as many warps for each.
  const int group = std::clamp(
      std::min(step_warps, slots) / slices,
      1,
      std::min(most_group, static_cast<int>(division.each)));
  division.group = static_cast<unsigned>(group);
  division.warp_slices = shares_units ? slices : 1;
  const int teams = slices / division.warp_slices; // of a unit
  division.sharers = std::clamp(
      std::min(step_warps / (group * teams), most_parts / teams),
      1,
      most_sharers);
  division.parts = teams * division.sharers;
  for (int warp = 0; warp < step_warps; ++warp) {
    const int team = warp / division.sharers;
    division.roles[warp] = {
        static_cast<std::int8_t>(team / teams),
        static_cast<std::int8_t>(team % teams * division.warp_slices),
        static_cast<std::int8_t>(warp % division.sharers)};
  }
  return division;
}

int pieces_for(std::int64_t bytes) {
  return static_cast<int>((bytes + 15) / 16);
}

/// The plan with slices of so many columns.
StepPlan plan_with(const TextStepShape& shape, int columns) {
  const int blocks = blocks_together();
  const int slices = shape.hidden / columns;
  StepPlan plan{};
  plan.columns = columns;
  plan.splits = std::clamp(blocks / shape.heads, 1, most_splits);
  plan.slot_pieces = unit_rows * columns / 8;
  plan.layers_at = pieces_for(barrier_bytes);
  plan.products_at = plan.layers_at +
      pieces_for((shape.layers + 1) *
                 static_cast<std::int64_t>(sizeof(TextStepLayer)));
  plan.x_at = plan.products_at + pieces_for(sizeof plan.products);
  plan.hidden_at = plan.x_at +
      pieces_for(std::int64_t{2} * std::max(shape.hidden, shape.inner));
  plan.head_at = plan.hidden_at + pieces_for(std::int64_t{2} * shape.hidden);
  plan.norm_sums_at =
      plan.head_at + pieces_for(std::int64_t{6} * shape.head_size);
  plan.sums_at = plan.norm_sums_at + pieces_for(step_warps * sizeof(Pair));
  const int attention_floats =
      step_warps * ((shape.head_size <= 64 ? 64 : most_head) + 4);
  plan.ring_at = plan.sums_at +
      pieces_for(std::int64_t{4} * std::max(sums_floats, attention_floats));
  plan.ring_at = (plan.ring_at + 7) / 8 * 8; // 128 bytes
  const auto pieces =
      static_cast<int>((most_shared_bytes() - shared_reserve) / 16) -
      plan.ring_at;
  plan.slots = std::clamp(pieces / plan.slot_pieces, 0, most_slots);
  plan.slot_share = static_cast<unsigned>(
      ((std::uint64_t{1} << 32U) + static_cast<unsigned>(plan.slots)) /
      static_cast<unsigned>(std::max(plan.slots, 1)));

  const auto with_rows = [&](int rows, int of_row) {
    return divided(rows, blocks, of_row, plan.slots, shape.shares_units);
  };
  plan.products[query_key_value] =
      with_rows(3 * shape.heads * shape.head_size, slices);
  plan.products[dense] = with_rows(shape.hidden, slices);
  plan.products[up] = with_rows(shape.inner, slices);
  plan.products[down] = with_rows(shape.hidden, shape.inner / columns);
  plan.products[head] = with_rows(shape.outputs, slices);

  plan.head_messages = (shape.head_size + part_values - 1) / part_values;
  int at = 0;
  for (int i = 0; i < head; ++i) {
    plan.products[i].messages_at = at;
    at += static_cast<int>(plan.products[i].units);
  }
  plan.attended_at = at;
  plan.messages = at + shape.heads * plan.splits * plan.head_messages;
  return plan;
}

} // namespace

StepPlan plan_of(const TextStepShape& shape) {
  const int both = std::gcd(shape.hidden, shape.inner);
  StepPlan plan{};
  for (int columns = both / 64 * 64; columns > 0; columns -= 64) {
    if (both % columns == 0) {
      plan = plan_with(shape, columns);
      if (plan.slots >= enough_slots) {
        break;
      }
    }
  }
  return plan;
}

} // namespace cairn::kernels::cuda
