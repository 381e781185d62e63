#include "config/key.h"

namespace cairn::config {

void add_training_keys(std::vector<Key>& table) {
  using D = DeepSpeedConfig;
  using G = GradientConfig;
  KeySection top(table, "");
  top.key<&D::gradients, &G::clipping>(
         "gradient_clipping",
         "Largest norm of all gradients together; 0 leaves them as they are.")
      .at_least(0);
  top.key<&D::gradients, &G::prescale>(
      "prescale_gradients",
      "Divide gradients before they are summed.");
  top.key<&D::gradients, &G::predivide_factor>(
         "gradient_predivide_factor",
         "What prescaling divides by; the rest is divided afterwards.")
      .above(0);
  top.key<&D::gradients, &G::allreduce_op>(
         "gradient_allreduce_op",
         "Average gradients over ranks or sum them.")
      .refused("gradients are averaged");
  top.key<&D::gradients, &G::sparse>(
         "sparse_gradients",
         "Send embedding gradients in sparse form.")
      .refused("gradients are reduced dense");
  top.key<&D::gradients, &G::communication_data_type>(
         "communication_data_type",
         "Type in which gradients travel.")
      .by_default("that of the gradients");
  top.key<&D::disable_allgather>(
         "disable_allgather",
         "Gather with broadcasts instead.")
      .refused("set zero_optimization.allgather_partitions instead");
  top.key<&D::dataloader, &DataLoaderConfig::drop_last>(
      "dataloader_drop_last",
      "Leave out the last batch of an epoch when it is not full.");
  top.key<&D::vocabulary_size>(
         "vocabulary_size",
         "Only used to warn of odd vocabulary sizes.")
      .at_least(1)
      .without_effect("Cairn pads the vocabulary itself");
  top.key<&D::seq_parallel_communication_data_type>(
         "seq_parallel_communication_data_type",
         "Type in which gradients travel between sequence-parallel ranks.")
      .refused("set communication_data_type instead");
  top.key<&D::use_data_before_expert_parallelism>(
         "use_data_before_expert_parallelism",
         "Order of data and expert ranks.")
      .refused("the order of ranks is Megatron's");
  top.key<&D::sequence_parallel_size>(
         "sequence_parallel_size",
         "Ranks that share one sequence.")
      .at_least(1)
      .refused("use --context-parallel-size");

  using A = ActivationCheckpointingConfig;
  KeySection activation(
      table,
      "activation_checkpointing",
      "Recomputing activations in backward instead of keeping them.");
  activation.key<&D::activation_checkpointing, &A::partition_activations>(
      "partition_activations",
      "Split kept activations over the tensor-parallel ranks.");
  activation.key<&D::activation_checkpointing, &A::cpu_checkpointing>(
      "cpu_checkpointing",
      "Keep them in CPU memory.");
  activation
      .key<&D::activation_checkpointing, &A::contiguous_memory_optimization>(
          "contiguous_memory_optimization",
          "Keep them in one buffer.");
  activation
      .key<&D::activation_checkpointing, &A::number_checkpoints>(
          "number_checkpoints",
          "How many there are, to size that buffer.")
      .at_least(1)
      .by_default("null");
  activation
      .key<&D::activation_checkpointing, &A::synchronize_checkpoint_boundary>(
          "synchronize_checkpoint_boundary",
          "Wait for the device at each boundary.");
  activation.key<&D::activation_checkpointing, &A::profile>(
      "profile",
      "Log the time of each checkpointed part.");

  using C = CheckpointConfig;
  KeySection checkpoint(table, "checkpoint", "Saving and loading.");
  checkpoint.key<&D::checkpoint, &C::async>(
      "async",
      "Write while training goes on, from a copy in memory. Cairn's own key.");
  checkpoint
      .key<&D::checkpoint, &C::keep_last>(
          "keep_last",
          "Keep only so many of the newest checkpoints. Cairn's own key.")
      .at_least(1)
      .by_default("all");
  checkpoint
      .key<&D::checkpoint, &C::keep_every>(
          "keep_every",
          "Besides, keep those at multiples of so many steps. Cairn's own key.")
      .at_least(1)
      .by_default("none");
  checkpoint
      .key<&D::checkpoint, &C::tag_validation>(
          "tag_validation",
          "What to do when ranks save under different tags.")
      .without_effect("different tags are always an error");
  checkpoint
      .key<&D::checkpoint, &C::load_universal>(
          "load_universal",
          "Load a universal checkpoint.")
      .without_effect("every checkpoint loads at any layout");
  checkpoint
      .key<&D::checkpoint, &C::use_node_local_storage>(
          "use_node_local_storage",
          "Checkpoints live on disks that nodes do not share.")
      .refused("checkpoints need a folder that all ranks see");
  checkpoint.opaque(
      "writer",
      "DeepSpeed's fast writer.",
      "Cairn has one writer; `async` says whether training waits for it");
  checkpoint
      .add(
          "checkpoint_serialization",
          "Whether Python serialises the checkpoint.",
          {},
          Key::Kind::opaque)
      .refused("checkpoints are safetensors files");
  KeySection parallel(
      table,
      "checkpoint.parallel_write",
      "Sharing out the writing.");
  parallel
      .key<&D::checkpoint, &C::pipeline_stage>(
          "pipeline_stage",
          "Let pipeline stages write in parallel.")
      .without_effect("all ranks write in parallel");

  using P = PipelineConfig;
  KeySection pipeline(table, "pipeline", "Pipeline parallelism.");
  pipeline
      .key<&D::pipeline, &P::stages>(
          "stages",
          "Number of stages; \"auto\" is the mesh's.")
      .at_least(1)
      .by_default("\"auto\"");
  pipeline.key<&D::pipeline, &P::partition>(
      "partition",
      "How layers are shared out: best, uniform, parameters or "
      "type:regex.");
  pipeline.key<&D::pipeline, &P::seed_layers>(
      "seed_layers",
      "Seed each layer's initial weights on its own.");
  pipeline
      .key<&D::pipeline, &P::activation_checkpoint_interval>(
          "activation_checkpoint_interval",
          "Layers between activation checkpoints; 0: none.")
      .at_least(0);
  pipeline
      .key<&D::pipeline, &P::pipe_partitioned>(
          "pipe_partitioned",
          "Split activations sent between stages over tensor-parallel ranks.")
      .without_effect("what is split follows from the tensor-parallel layers");
  pipeline
      .key<&D::pipeline, &P::grad_partitioned>(
          "grad_partitioned",
          "Split gradients sent between stages over tensor-parallel ranks.")
      .without_effect("what is split follows from the tensor-parallel layers");
  pipeline
      .key<&D::pipeline, &P::use_reentrant>(
          "use_reentrant",
          "Which of PyTorch's two activation checkpoint functions to use.")
      .refused("there is one way of checkpointing activations");

  using U = CurriculumConfig;
  KeySection curriculum(table, "curriculum_learning", "Short sequences first.");
  curriculum.key<&D::curriculum, &U::enabled>(
      "enabled",
      "Train with a curriculum.");
  curriculum.key<&D::curriculum, &U::type>("curriculum_type", "What grows.")
      .one_of({"seqlen"});
  curriculum
      .key<&D::curriculum, &U::min_difficulty>(
          "min_difficulty",
          "Sequence length at the start.")
      .at_least(1)
      .by_default("required");
  curriculum
      .key<&D::curriculum, &U::max_difficulty>(
          "max_difficulty",
          "Sequence length at the end.")
      .at_least(1)
      .by_default("required");
  curriculum
      .key<&D::curriculum, &U::schedule_type>("schedule_type", "How it grows.")
      .by_default("required");
  KeySection schedule(
      table,
      "curriculum_learning.schedule_config",
      "The shape of the growth.");
  schedule
      .key<&D::curriculum, &U::total_curriculum_step>(
          "total_curriculum_step",
          "Steps from the first length to the last.")
      .at_least(1)
      .by_default("required but for fixed_discrete");
  schedule
      .key<&D::curriculum, &U::difficulty_step>(
          "difficulty_step",
          "Lengths are multiples of this.")
      .at_least(1)
      .by_default("required but for fixed_discrete");
  schedule
      .key<&D::curriculum, &U::root_degree>(
          "root_degree",
          "Degree of the root; 2 is the square root.")
      .at_least(1)
      .by_default("required for fixed_root");
  schedule
      .key<&D::curriculum, &U::difficulty>(
          "difficulty",
          "The lengths of fixed_discrete.")
      .at_least(1)
      .by_default("required for fixed_discrete");
  schedule
      .key<&D::curriculum, &U::max_step>(
          "max_step",
          "The last step of each length but the last.")
      .at_least(1)
      .by_default("required for fixed_discrete");

  using L = RandomLtdConfig;
  constexpr auto ltd = &D::random_ltd;
  const std::string name = "data_efficiency";
  KeySection data(table, name, "Random token dropping.");
  data.key<ltd, &L::data_efficiency>("enabled", "Whether it is used.");
  data.key<ltd, &L::seed>("seed", "Of the choice of tokens.").at_least(0);
  data.opaque(
      "data_sampling",
      "Samples by their difficulty.",
      "use curriculum_learning for sequence-length curricula");
  KeySection routing(table, name + ".data_routing", "Where tokens go.");
  routing.key<ltd, &L::data_routing>("enabled", "Whether it is used.");
  const std::string path = name + ".data_routing.random_ltd";
  KeySection random(table, path, "Layers that compute some of the tokens.");
  random.key<ltd, &L::enabled>("enabled", "Drop tokens, with --random-ltd.");
  random.key<ltd, &L::total_layers>("total_layer_num", "Layers in all.")
      .by_default("required");
  random
      .key<ltd, &L::layer_count>(
          "random_ltd_layer_num",
          "How many drop tokens.")
      .by_default("as many as listed");
  random.key<ltd, &L::layers>("random_ltd_layer_id", "Which ones, from 0 on.")
      .at_least(0)
      .by_default("required");
  random
      .key<ltd, &L::mask_name>("model_mask_name", "The mask's name in a layer.")
      .without_effect("a layer's mask is known");
  random
      .key<ltd, &L::model_type>("model_type", "Of the model; GPT is a decoder.")
      .one_of({"decoder"});
  random
      .key<ltd, &L::hidden_state_order>(
          "hidden_state_order",
          "Of the dimensions.")
      .one_of({"batch_seq_dim", "seq_batch_dim"})
      .without_effect("the order of dimensions is known");
  random.opaque(
      "layer_token_lr_schedule",
      "A learning rate by the tokens of layers.",
      "DeepSpeed has not built it either; --lr-decay-tokens counts them");
  constexpr auto plan = &L::schedule;
  const std::string growth = path + ".random_ltd_schedule";
  KeySection kept(table, growth, "How many tokens these layers compute.");
  kept.key<ltd, plan, &U::min_difficulty>("min_value", "At the start.")
      .at_least(1)
      .by_default("required");
  kept.key<ltd, plan, &U::max_difficulty>("max_value", "At the end.")
      .at_least(1)
      .at_most(1e12)
      .by_default("required");
  kept.key<ltd, &L::schedule_type>("schedule_type", "How they become more.")
      .one_of({"fixed_linear"});
  KeySection shape(table, growth + ".schedule_config", "The growth's shape.");
  shape
      .key<ltd, plan, &U::total_curriculum_step>(
          "require_steps",
          "Steps to the end.")
      .at_least(1)
      .by_default("required");
  shape
      .key<ltd, plan, &U::difficulty_step>(
          "seq_per_step",
          "They are multiples of it.")
      .at_least(1)
      .by_default("required");
}

} // namespace cairn::config
