#include "config/internal/flag.h"

#include <limits>

namespace cairn::config {

// Flags of Megatron-LM and Megatron-DeepSpeed that change no result, or that
// ask for what Cairn does anyway. A script brought from there may have them: it
// is told in one line why they have no effect. A reason is true for each name
// in its row.
std::span<const TakenFlags> taken_flags() {
  constexpr Arity none{0, 0};
  constexpr Arity one{1, 1};
  constexpr Arity some{1, std::numeric_limits<std::size_t>::max()};
  // clang-format off
  static constexpr TakenFlags rows[] = {
    {"attention runs on the fastest kernel for the device and the sizes", one, "attention-backend", "auto flash fused unfused local"},
    {"attention runs on the fastest kernel for the device and the sizes", one, "flash-attention-version"},
    {"attention runs on the fastest kernel for the device and the sizes", none, "use-flash-attn-triton use-flash-attn-builder"},
    {"every layer has one implementation, Cairn's", one, "transformer-impl", "local transformer_engine inference_optimized"},
    {"every layer has one implementation, Cairn's", none, "te-rng-tracker use-te-activation-func use-transformer-engine-op-fuser use-mcore-models enable-experimental ds-fused-adam disable-mem-efficient-ln"},
    {"fused kernels compute the same; Cairn uses those that it has", one, "cross-entropy-fusion-impl"},
    {"fused kernels compute the same; Cairn uses those that it has", none, "cross-entropy-loss-fusion disable-jit-fuser fused-residual-rmsnorm mla-down-proj-fusion moe-permute-fusion moe-permute-fusion-into-hybridep moe-router-fusion no-bias-dropout-fusion no-bias-swiglu-fusion no-gradient-accumulation-fusion no-gradient-reduce-div-fusion no-masked-softmax-fusion no-persist-layer-norm no-rope-fusion use-fused-weighted-squared-relu"},
    {"there is no Python garbage collector in the process", none, "manual-gc no-manual-gc-eval disable-manual-gc-eval"},
    {"there is no Python garbage collector in the process", one, "manual-gc-interval"},
    {"indices of samples are built in one pass and mapped", one, "num-dataset-builder-threads"},
    {"indices of samples are built in one pass and mapped", none, "dataloader-fast-cache-load dataloader-defer-npy-index-mmap"},
    {"a run goes on where it was in its data", none, "resume-dataloader"},
    {"nothing is cached but indices of samples, beside the data or in --data-cache-path", one, "cache-dir"},
    {"data files are mapped when training starts", none, "mmap-warmup no-mmap-bin-files"},
    {"masks of attention are made by the model", none, "no-create-attention-mask-in-dataloader"},
    {"nothing is sent to Weights & Biases, which is not built in; --tensorboard-dir and --log-jsonl write the same values", one, "wandb-project wandb-entity wandb-exp-name wandb-save-dir"},
    {"nothing is sent to Weights & Biases, which is not built in; --tensorboard-dir and --log-jsonl write the same values", none, "inference-wandb-logging no-inference-wandb-logging"},
    {"One Logger is not built in; --log-jsonl writes the values of a run", none, "no-one-logger one-logger-async"},
    {"One Logger is not built in; --log-jsonl writes the values of a run", one, "one-logger-project one-logger-run-name app-tag-run-name app-tag-run-version"},
    {"OpenTelemetry is not built in; --log-jsonl writes the values of a run", none, "otel-enabled"},
    {"OpenTelemetry is not built in; --log-jsonl writes the values of a run", one, "otel-service-name otel-span-groups"},
    {"--log-jsonl has the configuration of a run in its first line", one, "config-logger-dir"},
    {"energy is not measured", none, "log-energy"},
    {"the log has a run's progress and throughput in any case", none, "log-progress"},
    {"the level of the log is not a flag", one, "logging-level"},
    {"use --timing-log-level and --timing-log-option for the times of every rank", none, "log-straggler disable-straggler-on-startup"},
    {"use --timing-log-level and --timing-log-option for the times of every rank", one, "straggler-ctrlr-port straggler-minmax-count"},
    {"timers do not wait for other ranks", none, "no-barrier-with-level-1-timing"},
    {"there are no NVTX ranges; --profile writes traces", none, "nvtx-ranges"},
    {"--profile always records shapes and memory", none, "pytorch-profiler-collect-shapes record-shapes"},
    {"there is no workload inspector", none, "run-workload-inspector-server"},
    {"weights of data-parallel replicas are not compared", one, "check-weight-hash-across-dp-replicas-interval"},
    {"the flight recorder is always on", one, "flight-recorder-dump-path flight-recorder-trace-buffer-size"},
    {"the flight recorder is always on", none, "flight-recorder-include-stack-trace no-flight-recorder-dump-on-timeout no-flight-recorder-extra-dump-on-exec no-flight-recorder-include-only-active disable-flight-recorder-dump-on-timeout disable-flight-recorder-extra-dump-on-exec disable-flight-recorder-include-only-active"},
    {"NCCL is set by its own variables, NCCL_…", none, "disable-symmetric-registration use-sharp"},
    {"NCCL is set by its own variables, NCCL_…", some, "high-priority-stream-groups"},
    {"NCCL is set by its own variables, NCCL_…", one, "nccl-communicator-config-path sharp-enabled-group suggested-communication-unit-size"},
    {"communication of experts is not overlapped; it sends the same", none, "ep-overlap-early-attn-memory-release high-priority-a2a-comm-stream moe-shared-expert-overlap overlap-dispatch-backward-with-experts-wgrad overlap-moe-expert-parallel-comm"},
    {"stages of a pipeline exchange activations in one way", none, "no-overlap-p2p-communication overlap-p2p-communication overlap-p2p-communication-warmup-flush use-ring-exchange-p2p no-scatter-gather-tensors-in-pipeline"},
    {"parameters are gathered in one way; --overlap-param-gather does so beside the next forward", none, "no-align-param-gather overlap-param-gather-with-optimizer-step"},
    {"tensor-parallel communication has no settings but --tp-comm-overlap", none, "no-async-tensor-model-parallel-allreduce no-clone-scatter-output-in-embedding disable-clone-scatter-output-in-embedding"},
    {"--tp-comm-overlap overlaps the tokens of all products: there are no parts of it to turn on or off", none, "tp-comm-overlap-rs-dgrad no-tp-comm-bulk-dgrad no-tp-comm-bulk-wgrad no-tp-comm-overlap-ag no-tp-comm-overlap-rs no-tp-comm-split-ag no-tp-comm-split-rs disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs disable-tp-comm-split-ag disable-tp-comm-split-rs"},
    {"--tp-comm-overlap uses the ranks' own collectives, not the user buffers of Transformer Engine that this sets up", one, "tp-comm-bootstrap-backend tp-comm-overlap-cfg"},
    {"gradients are reduced in buckets of --zero-reduce-bucket-size", one, "ddp-bucket-size ddp-num-buckets"},
    {"gradients are reduced in buckets of --zero-reduce-bucket-size", none, "ddp-pad-buckets-for-high-nccl-busbw no-contiguous-buffers-in-local-ddp zero-contigious-gradients"},
    {"gradients are averaged while they are reduced", none, "ddp-average-in-collective no-align-grad-reduce disable-align-grad-reduce"},
    {"--zero-stage says how gradients are reduced", none, "zero-reduce-scatter"},
    {"--pipeline-schedule zb-h1 delays weight gradients; the other schedules do not", none, "defer-embedding-wgrad-compute delay-wgrad-compute"},
    {"--pipeline-schedule zb-h1 delays weight gradients; the other schedules do not", one, "wgrad-deferral-limit"},
    {"use --distributed-backend for the library of collectives", none, "disable-gloo-process-groups"},
    {"use --distributed-backend for the library of collectives", one, "pipeline-model-parallel-comm-backend"},
    {"the mesh makes the groups of ranks it needs", none, "create-all-gather-group create-moe-param-group lazy-mpu-init use-tp-pp-dp-mapping"},
    {"ranks that mpirun has started are recognised without a flag", none, "deepscale-mpi deepspeed-mpi"},
    {"memory of the device is not given back between steps", one, "empty-unused-memory-level", "0 1 2"},
    {"weights are made where they are used, from --seed", none, "init-model-with-meta-device no-initialization use-cpu-initialization"},
    {"Cairn saves in its own format, which loads at any layout; `cairn convert` writes Megatron's", one, "ckpt-format dist-ckpt-format ckpt-pg-tensors-cache-path"},
    {"Cairn saves in its own format, which loads at any layout; `cairn convert` writes Megatron's", none, "use-dist-ckpt auto-detect-ckpt-format dist-ckpt-save-pre-mcore-014 ckpt-assume-constant-structure ckpt-drop-redundant-extra-state ckpt-pg-tensors-cache-create"},
    {"every checkpoint loads at any layout", none, "dist-ckpt-optim-fully-reshardable distrib-optim-fully-reshardable-mem-efficient universal-checkpoint"},
    {"all ranks save and load their part", none, "ckpt-fully-parallel-load ckpt-fully-parallel-load-per-rank-objects ckpt-fully-parallel-save no-ckpt-fully-parallel-save"},
    {"all ranks save and load their part", one, "ckpt-fully-parallel-load-exchange-algo ckpt-fully-parallel-load-process-group ckpt-fully-parallel-save-process-group dist-ckpt-workers"},
    {"the one setting of writing in the background is checkpoint.async in the JSON file", one, "async-ckpt-cpu-priority async-ckpt-io-priority async-strategy"},
    {"the one setting of writing in the background is checkpoint.async in the JSON file", none, "async-ckpt-use-cpu-shm use-persistent-ckpt-worker"},
    {"a checkpoint is checked against the model, whatever this says", one, "dist-ckpt-strictness"},
    {"a checkpoint is checked against the model, whatever this says", none, "no-ckpt-load-validate-sharding-integrity disable-ckpt-load-validate-sharding-integrity no-strict-fsdp-dtensor-load disable-strict-fsdp-dtensor-load"},
    {"tokenizer files are not copied into checkpoints", none, "no-save-tokenizer-assets disable-save-tokenizer-assets"},
    {"the layer's number cancels out of attention's scores, which are computed in fp32 anyway", none, "apply-query-key-layer-scaling no-query-key-layer-scaling"},
    {"a norm's weight is kept whole, not as its distance from one: it learns the same, as norms have no weight decay", none, "apply-layernorm-1p"},
    {"experts of a rank are computed together wherever they can be", none, "moe-grouped-gemm moe-single-grouped-bias moe-single-grouped-weight moe-use-grouped-tensor use-grouped-gemm-for-dense-mlp use-tutel"},
    {"tokens reach their experts by an all-to-all", one, "moe-token-dispatcher-type moe-deepep-num-sms moe-flex-dispatcher-backend moe-flex-dispatcher-num-sms moe-hybridep-num-blocks-permute moe-hybridep-num-blocks-unpermute moe-hybridep-num-sms moe-hybridep-num-sms-preprocessing"},
    {"tokens reach their experts by an all-to-all", none, "moe-enable-deepep moe-hybridep-pad-uneven-dispatch-inputs moe-ncclep-zero-copy moe-pad-expert-input-to-capacity"},
    {"the load-balancing loss is over the tokens of a micro batch", some, "moe-router-load-balancing-type", "aux_loss", "the router has the load-balancing loss over the tokens of a micro batch (aux_loss); --moe-loss-coeff 0 turns it off"},
    {"the router's scores are in fp32", one, "moe-router-dtype", "fp32", "the router's scores are in fp32"},
    {"the router has a softmax over all experts", one, "moe-router-score-function", "softmax", "the router has a softmax over all experts"},
    {"routing is not traced", none, "moe-per-layer-logging"},
    {"weights are gathered in 16 bits and brought into fp8 on every rank", none, "fp8-param-gather keep-fp8-transpose-cache"},
    {"copies of offloaded state run beside each other without a flag", none, "overlap-cpu-optimizer-d2h-h2d"},
    {"steps are not computed again to check them", one, "rerun-mode", "disabled report_stats", "steps are not computed again to check them"},
    {"ranks are in step after every update", one, "train-sync-interval"},
    {"no code of a tokenizer's files is run", none, "trust-remote-code tokenizer-hf-no-use-fast use-gigatoken"},
  };
  // clang-format on
  return rows;
}

} // namespace cairn::config
