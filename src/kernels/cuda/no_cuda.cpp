#include "kernels/formulas.h"
#include "kernels/internal/cuda/attention.h"
#include "kernels/internal/cuda/choice_rows.h"
#include "kernels/internal/cuda/clip.h"
#include "kernels/internal/cuda/column_sums.h"
#include "kernels/internal/cuda/cuda.h"
#include "kernels/internal/cuda/dropout.h"
#include "kernels/internal/cuda/expert_choice.h"
#include "kernels/internal/cuda/few_rows.h"
#include "kernels/internal/cuda/fp8.h"
#include "kernels/internal/cuda/group_rows.h"
#include "kernels/internal/cuda/grouped_product.h"
#include "kernels/internal/cuda/join_fp8.h"
#include "kernels/internal/cuda/join_heads.h"
#include "kernels/internal/cuda/kept_attention.h"
#include "kernels/internal/cuda/mix_rows.h"
#include "kernels/internal/cuda/norm_rows.h"
#include "kernels/internal/cuda/product.h"
#include "kernels/internal/cuda/rotate.h"
#include "kernels/internal/cuda/score_rows.h"
#include "kernels/internal/cuda/sum_of_squares.h"
#include "kernels/internal/cuda/swiglu.h"
#include "kernels/internal/cuda/table_rows.h"
#include "kernels/internal/cuda/text_rows.h"
#include "kernels/internal/cuda/text_step.h"
#include "kernels/internal/cuda/token_choice.h"
#include "kernels/internal/cuda/update_many.h"

namespace cairn::kernels::cuda {
namespace {

constexpr const char* missing =
    "this program has no GPU kernels; configure with -DCAIRN_CUDA=ON and link "
    "cairn::gpu";

} // namespace

bool has_kernels() {
  return false;
}

void* current_stream(int) {
  return nullptr;
}

bool is_recording(int) {
  return false;
}

template <class Formula>
const char* update(const Stretch&, const Formula&, float*, void*) {
  return missing;
}

template const char* update(const Stretch&, const Adagrad&, float*, void*);
template const char* update(const Stretch&, const Adam<false>&, float*, void*);
template const char* update(const Stretch&, const Adam<true>&, float*, void*);
template const char* update(const Stretch&, const Descent&, float*, void*);
template const char* update(
    const Stretch&,
    const LambDirection&,
    float*,
    void*);
template const char* update(const Stretch&, const Lion&, float*, void*);
template const char* update(const Stretch&, const MuonMomentum&, float*, void*);
template const char* update(const Stretch&, const Sgd&, float*, void*);

std::int64_t number_blocks(ManyStretchesRow*, std::int64_t) {
  return 0;
}

template <class Formula>
const char* update_many(const ManyStretches&, void*) {
  return missing;
}

template const char* update_many<Adagrad>(const ManyStretches&, void*);
template const char* update_many<Adam<false>>(const ManyStretches&, void*);
template const char* update_many<Adam<true>>(const ManyStretches&, void*);
template const char* update_many<Descent>(const ManyStretches&, void*);
template const char* update_many<LambDirection>(const ManyStretches&, void*);
template const char* update_many<Lion>(const ManyStretches&, void*);
template const char* update_many<MuonMomentum>(const ManyStretches&, void*);
template const char* update_many<Sgd>(const ManyStretches&, void*);

std::int64_t number_blocks(SquaredRow*, std::int64_t) {
  return 0;
}

const char* sum_of_squares(const SquaredRows&, double*, double*, void*) {
  return missing;
}

const char* scale(
    const void*,
    Element,
    const float*,
    void*,
    Element,
    std::int64_t,
    void*) {
  return missing;
}

std::int64_t column_parts(const MatrixShape&) {
  return 0;
}

const char* column_sums(const MatrixShape&, const void*, float*, void*) {
  return missing;
}

const char* gelu_backward(
    const MatrixShape&,
    Gelu,
    const void*,
    const void*,
    void*,
    float*,
    void*) {
  return missing;
}

const char* sum_of_parts(
    const float*,
    std::int64_t,
    std::int64_t,
    void*,
    Element,
    bool,
    void*) {
  return missing;
}

std::int64_t sort_workspace(const ChoiceRows&) {
  return 0;
}

const char* sort_choices(
    const ChoiceRows&,
    const std::int64_t*,
    const ChoicePlaces&,
    std::int32_t*,
    void*) {
  return missing;
}

std::int64_t choice_workspace(const ExpertChoice&) {
  return 0;
}

const char* choose_experts(
    const ExpertChoice&,
    const float*,
    const ChosenExperts&,
    void*,
    void*) {
  return missing;
}

const char* choose_experts_backward(
    const ExpertChoice&,
    const float*,
    const float*,
    const std::int64_t*,
    const float*,
    const float*,
    float*,
    void*) {
  return missing;
}

const char* split_floats(
    std::int64_t,
    std::int64_t,
    const float*,
    void*,
    void*) {
  return missing;
}

const char* add_group_biases(const GroupedRows&, const void*, void*, void*) {
  return missing;
}

const char* add_group_biases_gelu(
    const GroupedRows&,
    Gelu,
    const void*,
    void*,
    void*,
    void*) {
  return missing;
}

const char* group_gelu_backward(
    const GroupedRows&,
    Gelu,
    const void*,
    void*,
    float*,
    void*) {
  return missing;
}

std::int64_t group_parts(const GroupedRows&) {
  return 0;
}

const char* group_sums(const GroupedRows&, const void*, float*, void*) {
  return missing;
}

bool has_grouped_products() {
  return false;
}

bool takes(const RowsProduct&) {
  return false;
}

bool takes(const WeightsProduct&) {
  return false;
}

const char* multiply(const RowsProduct&, void*) {
  return missing;
}

const char* multiply(const WeightsProduct&, void*) {
  return missing;
}

std::int64_t product_parts(const ProductGroups&) {
  return 0;
}

const char* sum_product_parts(
    const ProductGroups&,
    std::int64_t,
    const float*,
    void*,
    Element,
    void*) {
  return missing;
}

const char* mix_rows(
    const MixedRows&,
    const void*,
    const std::int64_t*,
    const float*,
    void*,
    void*) {
  return missing;
}

const char* mix_rows_backward(
    const MixedRows&,
    const void*,
    const void*,
    const std::int64_t*,
    const float*,
    void*,
    float*,
    void*) {
  return missing;
}

std::int64_t table_scratch(const PickedRows&) {
  return 0;
}

const char* add_to_table(const PickedRows&, float*, void*, Element, void*) {
  return missing;
}

const char* dropout_rows(const DropoutRows&, const void*, void*, void*) {
  return missing;
}

const char* norm_forward(const NormRows&, const NormForward&, void*) {
  return missing;
}

std::int64_t norm_parts(const NormRows&) {
  return 0;
}

const char* norm_backward(const NormRows&, const NormBackward&, void*) {
  return missing;
}

const char* rotate(
    const Rotation&,
    const void*,
    const void*,
    const void*,
    void*,
    void*) {
  return missing;
}

const char* swiglu_forward(
    Element,
    std::int64_t,
    const void*,
    const void*,
    void*,
    void*) {
  return missing;
}

const char* swiglu_backward(
    Element,
    std::int64_t,
    const void*,
    const void*,
    const void*,
    void*,
    void*,
    void*) {
  return missing;
}

const char* sum_scores(
    const ScoreRows&,
    const std::int64_t*,
    const RowSums&,
    void*) {
  return missing;
}

const char* scores_to_gradients(
    const ScoreRows&,
    const std::int64_t*,
    const float*,
    const float*,
    void*) {
  return missing;
}

const char* cross_entropy(
    const ScoreRows&,
    const std::int64_t*,
    const float*,
    float*,
    void*) {
  return missing;
}

bool can_join_heads(const JoinedShape&, const HeadsOfAll&, const Angles&) {
  return false;
}

std::int64_t joined_parts(const JoinedShape&) {
  return 0;
}

const char* join_heads(
    const JoinedShape&,
    const HeadsOfAll&,
    const Angles&,
    void*,
    float*,
    void*) {
  return missing;
}

const char* join_heads_to_fp8(
    const JoinedShape&,
    const HeadsOfAll&,
    const Angles&,
    const Fp8Target&,
    void*) {
  return missing;
}

bool can_attend(const Attention&, const HeadsOfAll&) {
  return false;
}

const char* attend(
    const Attention&,
    const HeadsOfAll&,
    const HeadsTarget&,
    float*,
    void*) {
  return missing;
}

std::int64_t distance_parts(const Attention&) {
  return 0;
}

const char* attend_backward(
    const Attention&,
    const HeadsOfAll&,
    const AttentionResult&,
    float*,
    const AttentionGradientTargets&,
    void*) {
  return missing;
}

const char* split_heads(
    const JoinedShape&,
    const void*,
    const Angles&,
    void*,
    void*,
    void*,
    void*) {
  return missing;
}

const char* clip_factor(
    const float*,
    std::int64_t,
    const Clip&,
    double*,
    float*,
    void*) {
  return missing;
}

std::int64_t largest_count(const MatrixShape&) {
  return 0;
}

std::int64_t fp8_sum_parts(const MatrixShape&) {
  return 0;
}

const char* largest_parts(const Fp8Source&, float*, void*) {
  return missing;
}

const char* to_fp8(const Fp8Source&, const float*, const Fp8Target&, void*) {
  return missing;
}

const char* transpose_fp8(
    std::int64_t,
    std::int64_t,
    const void*,
    void*,
    void*) {
  return missing;
}

bool takes(const Product&) {
  return false;
}

std::optional<int> known_way(const std::string&) {
  return std::nullopt;
}

void try_ways(
    const std::string&,
    std::span<const std::function<void()>>,
    void*) {}

bool would_try(const Product&, void*) {
  return false;
}

const char* multiply(const Product&, Algorithm, void*, void*) {
  return missing;
}

const char* embed(const TextRows&, const EmbeddedRows&, void*) {
  return missing;
}

const char* normalize(const NormalizedRows&, const TextNorm&, Start, void*) {
  return missing;
}

const char* activate(
    Activation,
    Element,
    std::int64_t,
    void*,
    const void*,
    void*) {
  return missing;
}

const char* split_and_keep(
    const TextRows&,
    const TextHeads&,
    const KeptPages&,
    const SplitRows&,
    void*) {
  return missing;
}

const char* read_pages(
    const KeptPages&,
    std::int64_t,
    std::int64_t,
    const TextHeads&,
    void*,
    void*,
    void*) {
  return missing;
}

const char* find_peaks(const ScoredRows&, ScorePeak*, Start, void*) {
  return missing;
}

const char* choose_tokens(const TokenChoices&, ScorePeak*, void*) {
  return missing;
}

bool takes(const FewRowsProduct&) {
  return false;
}

const char* multiply_few_rows(const FewRowsProduct&, Start, void*) {
  return missing;
}

bool takes(const TextStepShape&) {
  return false;
}

std::size_t text_step_message_bytes(const TextStepShape&) {
  return 0;
}

const char* run_step(const TextStep&, void*) {
  return missing;
}

std::int64_t attention_part_floats(const TextHeads&, std::int64_t, int) {
  return 0;
}

std::int64_t attention_counters(const TextHeads&, std::int64_t) {
  return 0;
}

const char* attend_kept(
    const TextRows&,
    const KeptPages&,
    const KeptAttention&,
    Start,
    void*) {
  return missing;
}

} // namespace cairn::kernels::cuda
