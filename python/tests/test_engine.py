"""The engine from Python: the same training as torch alone, in real processes."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import graphs_on_cpu  # noqa: E402
import nets  # noqa: E402
import ranks  # noqa: E402

import cairn  # noqa: E402


def trained_losses(engine, steps=6, first=0):
    """Trains an engine, and averages the losses over the ranks."""
    losses = []
    accumulation = engine.gradient_accumulation_steps()
    for step in range(first, first + steps):
        total = 0.0
        for number in range(accumulation):
            loss = engine(*nets.batch(step, cairn.comm.get_rank() * accumulation + number))
            engine.backward(loss)
            engine.step()
            total += loss.item() / accumulation
        mean = torch.tensor([total / cairn.comm.get_world_size()], device=engine.device)
        cairn.comm.all_reduce(mean)
        losses.append(mean.item())
    return losses


# What the ranks do. Each is called in processes of its own.


def train(accumulation, all_changes):
    losses = []
    for changes in all_changes:
        engine, *_ = cairn.initialize(nets.fresh(), nets.config(accumulation=accumulation, **changes))
        losses.append(trained_losses(engine))
    return losses


def train_with_graphed_parts(accumulation, stages):
    losses = []
    for stage in stages:
        engine, *_ = cairn.initialize(nets.fresh(), nets.config(stage, accumulation))
        losses.append(trained_losses(engine, 1))
        nets.record_blocks(engine.module.blocks, make_graphs=graphs_on_cpu.make_graphed_callables)
        losses[-1] += trained_losses(engine, 5, 1)
    return losses


def train_checkpointed():
    import torch.utils.checkpoint

    def theirs(function, x):
        return torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)

    losses = []
    for function in (theirs, cairn.checkpointing.checkpoint):
        engine, *_ = cairn.initialize(nets.fresh(function), nets.config(3))
        losses.append(trained_losses(engine))
    return losses


def train_born_sliced():
    torch.manual_seed(17)
    with cairn.zero.Init(config_dict_or_path=nets.config(3)):
        net = nets.Gpt()
    engine, *_ = cairn.initialize(net, nets.config(3))
    return trained_losses(engine)


def train_with_optimizers():
    losses = {}
    for kind, make in OPTIMIZERS.items():
        net = nets.fresh()
        engine, returned, _, _ = cairn.initialize(
            net, nets.config(2, optimizer=None), optimizer=make(net.parameters())
        )
        assert engine.optimizer is returned
        losses[kind] = trained_losses(engine)
    return losses


def resume_with_rmsprop(folder):
    def made():
        net = nets.fresh()
        groups = [{"params": [p for p in net.parameters() if p.dim() > 1]}, {"params": [p for p in net.parameters() if p.dim() == 1], "lr": 1e-4}]
        optimizer = torch.optim.RMSprop(groups, lr=2e-3, momentum=0.5)
        return cairn.initialize(net, nets.config(3, optimizer=None), optimizer=optimizer)[0]

    engine = made()
    trained_losses(engine, 3)
    engine.save_checkpoint(folder)
    wanted = trained_losses(engine, 3, first=3)
    engine = made()
    engine.load_checkpoint(folder)
    return [wanted, trained_losses(engine, 3, first=3)]


def train_with_schedule(stage, kind):
    net = nets.fresh()
    optimizer = OPTIMIZERS[kind](net.parameters())
    first = optimizer.param_groups[0]["lr"]
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    engine, _, _, returned = cairn.initialize(
        net, nets.config(stage, optimizer=None), optimizer=optimizer, lr_scheduler=schedule
    )
    assert returned is schedule
    losses = trained_losses(engine)
    assert abs(engine.get_lr()[0] - first / 8) < 1e-12, engine.get_lr()
    return losses


def train_with_hooks():
    losses = []
    for stage in (0, 3):
        net = nets.fresh()
        engine, *_ = cairn.initialize(net, nets.config(stage))
        calls = []
        for parameter in net.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: calls.append(p.grad is not None))
        losses.append(trained_losses(engine))
        assert len(calls) == 6 * len(list(net.parameters())) and all(calls), len(calls)
    return losses


class Compiled(torch.nn.Module):
    """Layers whose parameters compiled code reads through their addresses."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(nets.WORDS, nets.WIDTH)
        self.norm = torch.nn.LayerNorm(nets.WIDTH)
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 2, nets.WIDTH))
        self.head = torch.nn.Linear(nets.WIDTH, nets.WORDS)

    def forward(self, tokens, targets):
        x = torch.tanh(self.norm(self.embedding(tokens)) * self.scale) + self.scale
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def train_compiled(who, backend):
    """Losses of each way to compile, at stage 3, and the same with nothing compiled."""
    losses = []
    for way in ("nobody", who):
        torch.manual_seed(17)
        net = Compiled()
        settings = nets.config(3)
        settings["zero_optimization"]["stage3_param_persistence_threshold"] = 0
        if way == "program before":
            net = torch.compile(net, backend=backend)
        engine, *_ = cairn.initialize(net, settings)
        called = engine
        if way == "engine":
            engine.compile(backend=backend)
        elif way == "program after":
            net.compile(backend=backend)
        elif way == "program beside":
            called = torch.compile(net, backend=backend)
        mine = []
        for step in range(3):
            batch = nets.batch(step, cairn.comm.get_rank())
            with torch.no_grad():
                mine.append(called(*batch).item())
            loss = engine(*batch)
            engine.backward(loss)
            engine.step()
            mine.append(loss.item())
        assert all(cairn.zero.is_sliced(parameter) for parameter in net.parameters())
        losses.append(mine)
    return losses


def train_beside_a_compiling_rank(when):
    """Losses at stage 3 where rank 0 alone compiles something that is no part of the model,
    or the error."""

    os.environ["CAIRN_COLLECTIVE_TIMEOUT"] = "6"

    def compile_something():
        if cairn.comm.get_rank() == 0:
            torch.compile(lambda x: x * 2 + 1, backend="eager")(torch.ones(3))

    if when == "before":
        compile_something()
    settings = nets.config(3)
    # Backward gathers again what forward has used.
    settings["zero_optimization"].update(stage3_max_live_parameters=5000, stage3_max_reuse_distance=0)
    engine, *_ = cairn.initialize(nets.fresh(), settings)
    losses = trained_losses(engine, 3)
    if when == "between":
        compile_something()
    try:
        return losses + trained_losses(engine, 3, first=3)
    except cairn.CommError as error:
        return str(error)


def evaluate_alone():
    """Rank 0's forward of parameters that all ranks have whole, beside an engine and after
    it; and the numbers of the module's hooks before, with the engine, and after."""
    net = nets.fresh()
    hooks = [len(net._forward_pre_hooks) + len(net._forward_hooks)]
    settings = nets.config(3)
    settings["zero_optimization"]["stage3_param_persistence_threshold"] = 10**6
    engine, *_ = cairn.initialize(net, settings)
    losses = []
    if cairn.comm.get_rank() == 0:
        with torch.no_grad():
            losses.append(engine(*nets.batch(0, 0)).item())
    cairn.comm.barrier()
    engine.destroy()
    if cairn.comm.get_rank() == 0:
        losses.append(net(*nets.batch(0, 0)).item())
    cairn.comm.barrier()

    net = nets.fresh()
    engine, *_ = cairn.initialize(net, nets.config(3))
    hooks.append(len(net._forward_pre_hooks) + len(net._forward_hooks))
    engine.destroy()
    hooks.append(len(net._forward_pre_hooks) + len(net._forward_hooks))
    return [losses, hooks]


def save_with_an_optimizer_without_states(folder):
    net = nets.fresh()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, maximize=True)
    engine, *_ = cairn.initialize(net, nets.config(1, optimizer=None), optimizer=optimizer)
    trained_losses(engine, 2)
    with open(os.path.join(folder, "log"), "w+", encoding="utf-8") as log:
        standard = os.dup(2)
        os.dup2(log.fileno(), 2)
        engine.save_checkpoint(folder)
        os.dup2(standard, 2)
        log.seek(0)
        return log.read()


def save_half(folder, stage):
    engine, *_ = cairn.initialize(nets.fresh(), nets.config(stage, 2 // cairn.comm.get_world_size()))
    losses = trained_losses(engine, 3)
    state = {
        "iteration": 3,
        "name": "half",
        "nested": {"list": [1, 2.5, None, True], "tuple": (1, "a"), 7: b"\x00\xff"},
        "tensor": torch.arange(3),
    }
    engine.save_checkpoint(folder, client_state=state)
    return losses


def resume_half(folder, stage):
    engine, *_ = cairn.initialize(nets.fresh(), nets.config(stage, 2 // cairn.comm.get_world_size()))
    path, state = engine.load_checkpoint(folder)
    assert path is not None and path.endswith("global_step3"), path
    assert state["iteration"] == 3 and state["name"] == "half"
    assert state["nested"] == {"list": [1, 2.5, None, True], "tuple": (1, "a"), 7: b"\x00\xff"}, state
    assert torch.equal(state["tensor"], torch.arange(3))
    return trained_losses(engine, 3, first=3)


def threads_that_torch_ends():
    engine, *_ = cairn.initialize(nets.fresh(), nets.config(3))
    trained_losses(engine, 1)

    def threads():  # of Gloo, the engine's own among them
        tasks = pathlib.Path("/proc/self/task").iterdir()
        return [(task / "comm").read_text() for task in tasks].count("pt_gloo_runloop\n")

    before = threads()
    torch.distributed.destroy_process_group()
    return before - threads()


def weights_of_stage3(folder):
    net = nets.fresh()
    engine, *_ = cairn.initialize(net, nets.config(3))
    trained_losses(engine, 2)
    try:
        net.state_dict()
        refused = ""
    except cairn.UsageError as error:
        refused = str(error)
    engine.save_16bit_model(folder)
    with cairn.zero.GatheredParameters(list(net.parameters())):
        whole = {name: value.clone() for name, value in net.state_dict().items()}
    with cairn.zero.GatheredParameters(net.norm.bias, modifier_rank=0):
        if cairn.comm.get_rank() == 0:
            net.norm.bias.data.fill_(3)
    filled = engine.full_parameter("norm.bias").tolist()
    engine.save_checkpoint(folder + "/run")
    if cairn.comm.get_rank() == 0:
        saved = torch.load(folder + "/pytorch_model.bin", weights_only=True)
        assert saved.keys() == whole.keys(), (saved.keys(), whole.keys())
        for name, value in whole.items():
            assert torch.equal(saved[name], value), name
        nets.fresh().load_state_dict(saved)
    return [refused, filled]


def collectives():
    cairn.init_distributed()
    x = torch.full((2,), float(cairn.comm.get_rank() + 1), device=cairn.accelerator.get_accelerator().device())
    cairn.comm.all_reduce(x)
    import torch.distributed as dist

    assert dist.is_initialized() and dist.get_world_size() == cairn.comm.get_world_size()
    return x.tolist()


def loaded_batches():
    data = torch.utils.data.TensorDataset(torch.arange(12.0).view(12, 1), torch.arange(12))
    net = torch.nn.Linear(1, 12)
    engine, _, loader, _ = cairn.initialize(net, nets.config(1), training_data=data)
    seen = []
    for x, y in loader:
        engine.backward(torch.nn.functional.cross_entropy(engine(x), y))
        engine.step()
        seen += y.tolist()
    return seen


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=0.2),
    "adam": lambda p: torch.optim.Adam(p, lr=3e-3, betas=(0.8, 0.95), weight_decay=0.01),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.02),
    "cpu_adam": lambda p: cairn.ops.adam.DeepSpeedCPUAdam(p, lr=3e-3),
    # These run as they are, on the engine's weights.
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=2e-3, momentum=0.5, centered=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=3e-3, weight_decay=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=3e-3),
    "adamax": lambda p: torch.optim.Adamax(p, lr=3e-3),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.3),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.05),
    "rprop": lambda p: torch.optim.Rprop(p, lr=1e-3),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=3e-3, amsgrad=True),
}


class Training(unittest.TestCase):
    def assert_close(self, got, wanted, places=4):
        self.assertEqual(len(got), len(wanted))
        for one, other in zip(got, wanted):
            self.assertAlmostEqual(one, other, places)

    def test_every_stage_trains_as_torch_does(self):
        wanted = nets.plain_losses(2)
        stages = [{"stage": stage} for stage in range(4)]
        for count, accumulation in ((1, 2), (2, 1)):
            for stage, losses in enumerate(ranks.run(train, count, accumulation, stages)[0]):
                with self.subTest(ranks=count, stage=stage):
                    self.assert_close(losses, wanted)

    def test_offload_and_bf16(self):
        wanted = nets.plain_losses(2)
        offload = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        offloaded, in_bf16 = ranks.run(train, 2, 1, [offload, {"stage": 3, "bf16": {"enabled": True}}])[0]
        self.assert_close(offloaded, wanted)
        self.assert_close(in_bf16, wanted, 1)

    def test_activation_checkpointing(self):
        wanted = nets.plain_losses(2)
        for losses in ranks.run(train_checkpointed, 2)[0]:
            self.assert_close(losses, wanted)

    def test_parameters_born_sliced(self):
        self.assert_close(ranks.run(train_born_sliced, 2)[0], nets.plain_losses(2))

    def test_optimizers_of_the_program(self):
        for kind, losses in ranks.run(train_with_optimizers, 2)[0].items():
            with self.subTest(kind):
                self.assert_close(losses, nets.plain_losses(2, make_optimizer=OPTIMIZERS[kind]))

    def test_states_of_the_program_s_optimizer_are_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            for wanted, got in ranks.run(resume_with_rmsprop, 2, folder):
                self.assertEqual(wanted, got)

    def test_a_schedule_of_the_program(self):
        for kind in ("adamw", "rmsprop"):
            with self.subTest(optimizer=kind):
                wanted = nets.plain_losses(
                    2, make_optimizer=OPTIMIZERS[kind], make_schedule=lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5)
                )
                self.assert_close(ranks.run(train_with_schedule, 2, 1, kind)[0], wanted)

    def test_hooks_of_the_program(self):
        for losses in ranks.run(train_with_hooks, 2)[0]:
            self.assert_close(losses, nets.plain_losses(2))

    def test_compiled_modules(self):
        for who, backend in (("engine", "aot_eager"), ("program before", "aot_eager"), ("program beside", "inductor")):
            with self.subTest(who=who, backend=backend):
                for plain, compiled in ranks.run(train_compiled, 2, who, backend, timeout=300):
                    self.assert_close(compiled, plain)

    def test_parts_of_the_module_as_cuda_graphs(self):
        wanted = nets.plain_losses(2)
        for count, stages in ((1, [0, 1, 2, 3]), (2, [0, 1, 2])):
            for stage, losses in zip(stages, ranks.run(train_with_graphed_parts, count, 2 // count, stages)[0]):
                with self.subTest(ranks=count, stage=stage):
                    self.assert_close(losses, wanted)

    def test_one_rank_that_compiles(self):
        wanted = nets.plain_losses(2)
        for losses in ranks.run(train_beside_a_compiling_rank, 2, "before"):
            self.assert_close(losses, wanted)
        for message in ranks.run(train_beside_a_compiling_rank, 2, "between"):
            # Which of them waits for the other depends on how far they are.
            self.assertRegex(message, r"rank [01] (has not reached|used) .*(bucket|where rank)")

    def test_one_rank_forwards_alone(self):
        (losses, hooks), (nothing, _) = ranks.run(evaluate_alone, 2, timeout=60)
        self.assert_close(losses, [nets.fresh()(*nets.batch(0, 0)).item()] * 2)
        self.assertEqual(nothing, [])
        self.assertEqual(hooks, [0, 2, 0])

    def test_an_optimizer_without_states_is_saved_without_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertNotIn("not all states", ranks.run(save_with_an_optimizer_without_states, 1, folder)[0])

    def test_leaves_no_thread_of_torch_behind(self):
        # One that lets go of a tensor while the interpreter ends would end the process.
        self.assertEqual(ranks.run(threads_that_torch_ends, 2), [2, 2])

    def test_goes_on_with_another_number_of_ranks(self):
        wanted = nets.plain_losses(2)
        for before, after in ((2, 1), (1, 2)):
            with tempfile.TemporaryDirectory() as folder:
                self.assert_close(ranks.run(save_half, before, folder, 3)[0], wanted[:3])
                self.assert_close(ranks.run(resume_half, after, folder, 2)[0], wanted[3:])

    def test_weights_of_stage_3_are_whole_or_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for refused, filled in ranks.run(weights_of_stage3, 2, folder):
                self.assertIn("spread over the ranks at ZeRO stage 3", refused)
                self.assertEqual(filled, [3.0] * nets.WIDTH)
            weights = cairn.load(folder + "/run")
            self.assertEqual(weights["norm.bias"].tolist(), [3.0] * nets.WIDTH)
            self.assertEqual(weights["embedding.weight"].shape, (nets.WORDS, nets.WIDTH))

    def test_torch_distributed_beside_the_engine(self):
        for count in (1, 2):
            for got in ranks.run(collectives, count):
                self.assertEqual(got, [float(sum(range(1, count + 1)))] * 2)

    def test_each_rank_loads_samples_of_its_own(self):
        seen = ranks.run(loaded_batches, 2)
        self.assertEqual(sorted(seen[0] + seen[1]), list(range(12)))


class Errors(unittest.TestCase):
    def test_have_types_that_callers_catch(self):
        with self.assertRaises(ValueError) as caught:
            cairn.initialize(torch.nn.Linear(2, 2), {"train_batch_size": 2, "zero_optimization": {"stge": 1}})
        self.assertIsInstance(caught.exception, cairn.ConfigError)
        self.assertIn('"stage"', caught.exception.remedy)
        with self.assertRaises(cairn.UsageError):
            cairn.initialize(3, {})
        with self.assertRaises(cairn.ConfigError):
            cairn.initialize(torch.nn.Linear(2, 2))

    def test_of_the_module_come_through(self):
        class Failing(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(2, 2)

            def forward(self, x):
                raise KeyError("mine")

        engine, *_ = cairn.initialize(Failing(), nets.config())
        with self.assertRaises(KeyError):
            engine(torch.ones(1, 2))

    def test_calls_out_of_order(self):
        engine, *_ = cairn.initialize(torch.nn.Linear(2, 2), nets.config())
        with self.assertRaises(cairn.UsageError):
            engine.step()

    def test_cuda_graphs_before_initialize(self):
        net = nets.fresh()
        nets.record_blocks(net.blocks[1:], make_graphs=graphs_on_cpu.make_graphed_callables)
        with self.assertRaisesRegex(cairn.UsageError, "blocks.1 is a CUDA graph already.*after initialize"):
            cairn.initialize(net, nets.config())

    def test_an_optimizer_that_is_not_there(self):
        net = torch.nn.Linear(2, 2)
        config = nets.config(optimizer=None)
        with self.assertRaisesRegex(cairn.UsageError, "Adafactor is not one .*zero_allow_untested_optimizer"):
            cairn.initialize(net, config, optimizer=torch.optim.Adafactor(net.parameters()))

        class Mine(torch.optim.SGD):
            def step(self, closure=None):
                self.steps = getattr(self, "steps", 0) + 1
                return super().step(closure)

        engine, *_ = cairn.initialize(
            net, {**config, "zero_allow_untested_optimizer": True}, optimizer=Mine(net.parameters(), lr=0.5)
        )
        before = net.bias.detach().clone()
        engine.backward(engine(torch.zeros(2, 2)).sum() / 2)
        engine.step()
        self.assertFalse(torch.equal(net.bias, before))

    def test_options_that_nothing_would_honour(self):
        with self.assertRaisesRegex(cairn.UsageError, "remote_device"):
            cairn.zero.Init(remote_device="nvme")
        for section in ({"partition_activations": True}, {"number_checkpoints": 4}):
            with self.assertRaisesRegex(cairn.UsageError, "partition_activations|num_checkpoints"):
                cairn.checkpointing.configure(deepspeed_config={"activation_checkpointing": section})
        self.assertFalse(cairn.checkpointing.is_configured())
        engine, *_ = cairn.initialize(torch.nn.Linear(2, 2), nets.config())
        with self.assertRaises(TypeError):
            engine.deepspeed_io([1], pin_memory=True)

    def test_a_gpu_that_the_build_has_no_parts_for(self):
        package = pathlib.Path(cairn.__file__).parent
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(f"{folder}/cairn/_cuda")
            for each in [*package.iterdir(), package / "_cuda" / "__init__.py"]:
                if each.name != "_cuda":
                    os.symlink(each, f"{folder}/cairn/{each.relative_to(package)}")
            code = "import torch; torch.cuda.is_available = lambda: True; import cairn; print(cairn.comm.world().device_name)"
            done = subprocess.run(
                [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True, check=True
            )
        self.assertIn("has no GPU parts and trains on the CPU", done.stderr)
        self.assertEqual(done.stdout, "cpu\n")

    def test_a_name_that_is_not_there(self):
        with self.assertRaisesRegex(AttributeError, "cairn serve"):
            cairn.init_inference


class Schedules(unittest.TestCase):
    def test_as_an_object_and_as_configured(self):
        params = {"warmup_min_lr": 0.0, "warmup_max_lr": 0.01, "warmup_num_steps": 4, "warmup_type": "linear"}
        configured, *_ = cairn.initialize(
            torch.nn.Linear(2, 2), nets.config(scheduler={"type": "WarmupLR", "params": params})
        )
        made, *_ = cairn.initialize(
            torch.nn.Linear(2, 2),
            nets.config(),
            lr_scheduler=lambda optimizer: cairn.runtime.lr_schedules.WarmupLR(optimizer, **params),
        )
        for _ in range(6):
            self.assertEqual(made.get_lr(), configured.get_lr())
            for engine in (configured, made):
                engine.backward(engine(torch.ones(2, 2)).sum())
                engine.step()


if __name__ == "__main__":
    unittest.main()
