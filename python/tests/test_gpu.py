"""The engine of Python on a GPU: the same training as torch alone there, beside what a
program does with the GPU itself."""

import gc
import math
import os
import sys
import tempfile
import unittest

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import nets  # noqa: E402
import ranks  # noqa: E402
import test_model_parallel  # noqa: E402
import test_moe  # noqa: E402
import test_pipeline  # noqa: E402

import cairn  # noqa: E402

STEPS, PASSES = 6, 2
# Offsets work of one stream against another: about a millisecond.
CYCLES = 2_000_000


def offloaded(stage, **kinds):
    return {
        "zero_optimization": {
            "stage": stage,
            "stage3_param_persistence_threshold": 20,
            **{f"offload_{kind}": {"device": "cpu", "pin_memory": True} for kind in kinds},
        }
    }


def passes_of(engine, step):
    """Trains an update; the mean of its losses over the ranks."""
    total = torch.zeros((), device=engine.device)
    accumulation = engine.gradient_accumulation_steps()
    for number in range(accumulation):
        loss = engine(*nets.batch(step, cairn.comm.get_rank() * accumulation + number))
        engine.backward(loss)
        engine.step()
        total += loss.detach() / accumulation / cairn.comm.get_world_size()
    cairn.comm.all_reduce(total)
    return total.item()


def engine_of(net, **changes):
    settings = nets.config(accumulation=PASSES // cairn.comm.get_world_size(), **changes)
    return cairn.initialize(net, settings)[0]


def losses_of(engine, steps=STEPS, first=0):
    return [passes_of(engine, step) for step in range(first, first + steps)]


# What the ranks do. Each is called in processes of its own.


def train(all_changes):
    losses = []
    for changes in all_changes:
        engine = engine_of(nets.fresh(), **changes)
        losses.append(losses_of(engine))
        assert engine.device.type == "cuda", engine.device
    return losses


def train_born_sliced():
    torch.manual_seed(17)
    with cairn.zero.Init(config_dict_or_path=nets.config(3)):
        net = nets.Gpt()
    return losses_of(engine_of(net, stage=3))


def train_checkpointed(stage):
    losses = []
    for on_cpu in (False, True):
        cairn.checkpointing.configure(checkpoint_in_cpu=on_cpu)
        losses.append(losses_of(engine_of(nets.fresh(cairn.checkpointing.checkpoint), stage=stage)))
    return losses


def train_on_side_streams(changes):
    """Losses where each update is on another stream than the last, behind work that
    makes it late, and its samples are copied on a third."""
    engine = engine_of(nets.fresh(), **changes)
    streams, copies = [torch.cuda.Stream() for _ in range(2)], torch.cuda.Stream()
    before = torch.cuda.current_stream()
    losses = []
    for step in range(STEPS):
        stream = streams[step % 2]
        stream.wait_stream(before)
        with torch.cuda.stream(stream):
            for number in range(PASSES):
                with torch.cuda.stream(copies):
                    torch.cuda._sleep(CYCLES)
                    batch = [each.pin_memory().to(engine.device, non_blocking=True) for each in nets.batch(step, number)]
                stream.wait_stream(copies)
                for each in batch:
                    each.record_stream(stream)
                torch.cuda._sleep(CYCLES)
                loss = engine(*batch)
                torch.cuda._sleep(CYCLES)
                engine.backward(loss)
                torch.cuda._sleep(CYCLES)
                engine.step()
                losses.append(loss.detach())
        before = stream
    torch.cuda.synchronize()
    return torch.stack(losses).view(STEPS, PASSES).mean(1).tolist()


def losses_beside(student, teacher, backward, step):
    """Losses of a student that is to answer as its teacher."""
    losses = []
    for number in range(STEPS):
        x = nets.batch(number, 0)[0].cuda()
        loss = (student(x) - teacher(x)).square().mean()
        backward(loss)
        step()
        losses.append(loss.item())
    return losses


def distil(stage):
    """Losses beside a teacher: by torch alone, by the engine, and by the engine with the
    teacher as a CUDA graph."""
    torch.manual_seed(3)
    teacher = nets.Gpt().cuda().requires_grad_(False)
    plain = nets.fresh().cuda()
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0.1)

    def step():
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()

    wanted = losses_beside(plain, teacher, torch.Tensor.backward, step)
    engine = engine_of(nets.fresh(), stage=stage, gradient_accumulation_steps=1)
    eager = losses_beside(engine, teacher, engine.backward, engine.step)

    engine = engine_of(nets.fresh(), stage=stage, gradient_accumulation_steps=1)
    graph, tokens = torch.cuda.CUDAGraph(), nets.batch(0, 0)[0].cuda()
    with torch.cuda.graph(graph):
        answer = teacher(tokens)

    def repeated(x):
        tokens.copy_(x)
        graph.replay()
        return answer

    return [wanted, eager, losses_beside(engine, repeated, engine.backward, engine.step)]


def train_with_graphed_parts(changes):
    """Losses, or what each of two attempts says."""
    engine = engine_of(nets.fresh(), **changes)
    nets.record_blocks(engine.module.blocks, engine.device)
    said = []
    for _ in range(2):
        try:
            return losses_of(engine)
        except cairn.UsageError as error:
            said.append(str(error))
    return said


def parts_graphed_too_early():
    net = nets.fresh().cuda()
    nets.record_blocks(net.blocks, "cuda")
    try:
        engine_of(net, stage=1)
    except cairn.UsageError as error:
        return str(error)


def record_the_engine():
    """What recording an engine's calls says, and the losses of training afterwards."""
    said = []
    engine = engine_of(nets.fresh(), stage=1)
    losses = losses_of(engine, 2)
    batch = [each.to(engine.device) for each in nets.batch(0, 0)]
    for call in (lambda: engine(*batch), lambda: engine.backward(torch.zeros(())), lambda: engine.step()):
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                call()
        except cairn.UsageError as error:
            said.append(str(error))
    return [said, losses + losses_of(engine, STEPS - 2, first=2)]


def train_beside_nccl_of_torch(stage):
    """Trains while a group of torch's own adds up on a stream of its own, with its
    calls in flight over the passes."""
    engine = engine_of(nets.fresh(), stage=stage)
    assert cairn.comm.world().backend == "nccl" and torch.distributed.get_backend() == "nccl"
    group = torch.distributed.new_group()
    side = torch.cuda.Stream()
    losses, sums = [], []
    for step in range(STEPS):
        loss = engine(*nets.batch(step, cairn.comm.get_rank()))
        with torch.cuda.stream(side):
            theirs = torch.full((1 << 16,), float(step + cairn.comm.get_rank()), device=engine.device)
            under_way = torch.distributed.all_reduce(theirs, group=group, async_op=True)
        engine.backward(loss)
        engine.step()
        with torch.cuda.stream(side):
            under_way.wait()
            sums.append([theirs.min().item(), theirs.max().item()])
        mean = loss.detach() / cairn.comm.get_world_size()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item())
    return [losses, sums]


def train_compiled(cases):
    """Losses of each case with nothing compiled, and compiled."""
    both = []
    for compiled in (False, True):
        losses = []
        for changes, options in cases:
            torch._dynamo.reset()
            engine = engine_of(nets.fresh(), **changes)
            if compiled:
                engine.compile(**options)
            losses.append([])
            for step in range(STEPS):
                with torch.no_grad():
                    losses[-1].append(engine(*nets.batch(step, 7)).item())
                losses[-1].append(passes_of(engine, step))
            engine.destroy()
        both.append(losses)
    return both


def evaluate():
    """Losses of a fixed batch, by stage: without gradients, by eval_batch, and of a copy of
    the weights in a plain module. Training goes on between."""
    seen = []
    for stage in range(4):
        engine = engine_of(nets.fresh(), stage=stage)
        losses_of(engine, 2)
        batch = nets.batch(9, 0)
        with torch.no_grad():
            loss = engine(*batch)
            assert not loss.requires_grad
        plain = nets.fresh()
        plain.load_state_dict(engine.module_state_dict())
        with torch.no_grad():
            wanted = plain.to(engine.device)(*(each.to(engine.device) for each in batch)).item()
        seen.append([loss.item(), engine.eval_batch(iter([batch]), 1).item(), wanted, losses_of(engine, 1, first=2)[0]])
    return seen


def save_and_resume(folder, saved_at, resumed_at):
    engine = engine_of(nets.fresh(), stage=saved_at)
    losses = losses_of(engine, 3)
    engine.save_checkpoint(folder, client_state={"of the GPU": torch.arange(3, device=engine.device)}, wait=False)
    losses_of(engine, 1, first=3)  # while the files are written
    engine.finish_checkpoint()
    engine = engine_of(nets.fresh(), stage=resumed_at)
    path, state = engine.load_checkpoint(folder)
    assert path is not None and path.endswith("global_step3") and state["of the GPU"].tolist() == [0, 1, 2], path
    return losses + losses_of(engine, 3, first=3)


def resume(folder, stage):
    engine = engine_of(nets.fresh(), stage=stage)
    assert engine.load_checkpoint(folder)[0] is not None
    return losses_of(engine, 3, first=3)


def memory_of_engines():
    """Bytes on the GPU: after the second update and after the twentieth, and when all
    is let go."""
    losses_of_torch = nets.plain_losses(PASSES, 2, device="cuda")  # and what libraries keep
    assert all(map(math.isfinite, losses_of_torch))
    gc.collect()
    before = torch.cuda.memory_allocated()
    kept = []
    for stage in range(4):
        net = nets.fresh()
        engine = engine_of(net, stage=stage)
        losses_of(engine, 2)
        early = torch.cuda.memory_allocated()
        losses_of(engine, 18, first=2)
        kept.append([early, torch.cuda.memory_allocated()])
        engine.destroy()
        del engine, net
        gc.collect()
        kept[-1].append(torch.cuda.memory_allocated() - before)
    return kept


def train_with_optimizer(kind):
    net = nets.fresh().cuda()
    engine, *_ = cairn.initialize(net, nets.config(2, PASSES, optimizer=None), optimizer=OPTIMIZERS[kind](net.parameters()))
    return losses_of(engine)


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=0.2, fused=True),
    "fused": lambda p: cairn.ops.adam.FusedAdam(p, lr=3e-3),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=2e-3, momentum=0.5),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=3e-3, amsgrad=True),
}


@unittest.skipUnless(torch.cuda.is_available(), "torch sees no GPU")
class OnGpu(unittest.TestCase):
    def assert_close(self, got, wanted, relative=1e-5):
        self.assertEqual(len(got), len(wanted), got)
        self.assertIsInstance(got[0], float, got)
        for one, other in zip(got, wanted):
            self.assertTrue(math.isclose(one, other, rel_tol=relative), f"{got} is not near {wanted}")

    def assert_refused(self, said):
        self.assertEqual(len(said), 2, said)
        for each in said:
            self.assertIn("weights of ZeRO stage 3 cannot be part of a CUDA graph", each)

    def wanted(self, **options):
        return nets.plain_losses(PASSES, STEPS, device="cuda", **options)


class Training(OnGpu):
    def test_every_stage_trains_as_torch_does(self):
        for stage, losses in enumerate(ranks.run(train, 1, [{"stage": stage} for stage in range(4)])[0]):
            with self.subTest(stage=stage):
                self.assert_close(losses, self.wanted())

    def test_half_precision(self):
        bf16 = {"bf16": {"enabled": True}}
        fp16 = {"fp16": {"enabled": True, "initial_scale_power": 8}}
        changes = [{"stage": stage, **kind} for kind in (bf16, fp16) for stage in (0, 1, 3)]
        for each, losses in zip(changes, ranks.run(train, 1, changes)[0]):
            with self.subTest(**each):
                self.assert_close(losses, self.wanted(), 0.01)

    def test_offload(self):
        changes = [offloaded(1, optimizer=1), offloaded(2, optimizer=1), offloaded(3, optimizer=1), offloaded(3, optimizer=1, param=1)]
        for each, losses in zip(changes, ranks.run(train, 1, changes)[0]):
            with self.subTest(**each):
                self.assert_close(losses, self.wanted())

    def test_parameters_born_sliced(self):
        self.assert_close(ranks.run(train_born_sliced, 1)[0], self.wanted())

    def test_optimizers_of_the_program(self):
        for kind, make in OPTIMIZERS.items():
            with self.subTest(kind):
                if kind == "fused":
                    make = lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=0)  # noqa: E731
                self.assert_close(ranks.run(train_with_optimizer, 1, kind)[0], self.wanted(make_optimizer=make), 5e-5)

    def test_activation_checkpointing(self):
        for stage in (1, 3):
            for losses in ranks.run(train_checkpointed, 1, stage)[0]:
                with self.subTest(stage=stage):
                    self.assert_close(losses, self.wanted())

    def test_evaluation(self):
        for stage, (plain, by_call, wanted, after) in enumerate(ranks.run(evaluate, 1)[0]):
            with self.subTest(stage=stage):
                self.assert_close([plain, by_call], [wanted, wanted])
                self.assert_close([after], self.wanted()[2:3])

    def test_goes_on_from_a_checkpoint(self):
        for saved_at, resumed_at in ((3, 1), (0, 3)):
            with self.subTest(saved_at=saved_at, resumed_at=resumed_at), tempfile.TemporaryDirectory() as folder:
                self.assert_close(ranks.run(save_and_resume, 1, folder, saved_at, resumed_at)[0], self.wanted())

    def test_memory_does_not_grow_and_is_let_go(self):
        for stage, (early, late, left) in enumerate(ranks.run(memory_of_engines, 1)[0]):
            with self.subTest(stage=stage):
                self.assertLessEqual(late, early)
                self.assertLessEqual(left, 1 << 16)


class OverNccl(OnGpu):
    """Two ranks, which share a GPU where there is one."""

    def test_nccl_of_torch_beside_the_engine(self):
        wanted_sums = [[2.0 * step + 1] * 2 for step in range(STEPS)]
        for stage in (0, 1, 2, 3):
            for losses, sums in ranks.run(train_beside_nccl_of_torch, 2, stage):
                with self.subTest(stage=stage):
                    self.assert_close(losses, self.wanted())
                    self.assertEqual(sums, wanted_sums)

    def test_parts_of_the_module_as_cuda_graphs(self):
        for stage in (0, 1, 2):
            for losses in ranks.run(train_with_graphed_parts, 2, {"stage": stage}):
                with self.subTest(stage=stage):
                    self.assert_close(losses, self.wanted())
        for said in ranks.run(train_with_graphed_parts, 2, {"stage": 3}):
            self.assert_refused(said)

    def test_goes_on_with_another_number_of_ranks(self):
        for before, after in ((2, 1), (1, 2)):
            with self.subTest(ranks=[before, after]), tempfile.TemporaryDirectory() as folder:
                ranks.run(save_and_resume, before, folder, 3, 2)
                self.assert_close(ranks.run(resume, after, folder, 1)[0], self.wanted()[3:])

    def test_divided_experts(self):
        wanted = ranks.run(test_moe.train_layouts, 1, 1, [0], "AdamW")[0][0]
        for stage, losses in zip((0, 2, 3), ranks.run(test_moe.train_layouts, 2, 2, [0, 2, 3], "AdamW")[0]):
            with self.subTest(stage=stage):
                self.assert_close(losses, wanted, 5e-5)

    def test_a_pipeline(self):
        wanted = test_pipeline.plain()
        for count in (1, 2):
            for losses, _ in ranks.run(test_pipeline.train, count, count, {}):
                with self.subTest(stages=count):
                    self.assert_close(losses, wanted, 5e-5)

    def test_layers_that_the_program_divides(self):
        wanted = test_model_parallel.plain_losses(1)
        with tempfile.TemporaryDirectory() as folder:
            for stage, losses in enumerate(ranks.run(test_model_parallel.train, 2, [0, 1, 2, 3], folder)[0][0]):
                with self.subTest(stage=stage):
                    self.assert_close(losses, wanted, 5e-5)


class BesideTheProgram(OnGpu):
    def test_side_streams(self):
        for changes in ({"stage": 0}, {"stage": 1}, {"stage": 2}, {"stage": 3}, offloaded(2, optimizer=1)):
            with self.subTest(**changes):
                self.assert_close(ranks.run(train_on_side_streams, 1, changes)[0], self.wanted())

    def test_a_cuda_graph_beside_the_engine(self):
        for stage in (0, 3):
            with self.subTest(stage=stage):
                wanted, eager, repeated = ranks.run(distil, 1, stage)[0]
                self.assert_close(eager, wanted)
                self.assert_close(repeated, wanted)

    def test_parts_of_the_module_as_cuda_graphs(self):
        for stage in range(4):  # at stage 3 a single rank keeps its weights whole
            with self.subTest(stage=stage):
                self.assert_close(ranks.run(train_with_graphed_parts, 1, {"stage": stage})[0], self.wanted())

    def test_parts_as_cuda_graphs_where_weights_are_sliced(self):
        self.assert_refused(ranks.run(train_with_graphed_parts, 1, offloaded(3, optimizer=1, param=1))[0])

    def test_parts_as_cuda_graphs_before_initialize(self):
        self.assertIn("Call torch.cuda.make_graphed_callables after initialize()", ranks.run(parts_graphed_too_early, 1)[0])

    def test_the_engine_s_calls_are_not_recorded(self):
        said, losses = ranks.run(record_the_engine, 1)[0]
        self.assertEqual(len(said), 3, said)
        for each, call in zip(said, ("engine(…)", "engine.backward(loss)", "engine.step()")):
            self.assertIn(f"{call} is not to be recorded for a CUDA graph", each)
        self.assert_close(losses, self.wanted())

    def compare_compiled(self, cases, relative):
        for case, eager, compiled in zip(cases, *ranks.run(train_compiled, 1, cases, timeout=400)[0]):
            with self.subTest(case):
                self.assert_close(compiled, eager, relative)

    def test_compiled_modules(self):
        self.compare_compiled([[{"stage": stage}, {}] for stage in range(4)], 1e-4)

    def test_compiled_modules_in_bf16(self):
        self.compare_compiled([[{"stage": stage, "bf16": {"enabled": True}}, {}] for stage in (0, 3)], 0.01)

    def test_modules_compiled_to_cuda_graphs(self):
        self.compare_compiled([[{"stage": stage}, {"mode": "reduce-overhead"}] for stage in (0, 1, 2)], 1e-4)


class Accelerator(OnGpu):
    def test_is_the_gpu(self):
        accelerator = cairn.accelerator.get_accelerator()
        self.assertEqual(accelerator.device_name(), "cuda")
        self.assertEqual(accelerator.device_name(0), "cuda:0")
        self.assertEqual(accelerator.communication_backend_name(), "nccl")
        self.assertEqual(accelerator.device_count(), torch.cuda.device_count())
        self.assertTrue(accelerator.is_bf16_supported())
        self.assertFalse(accelerator.is_synchronized_device())
        accelerator.set_device(0)
        self.assertEqual(accelerator.current_device_name(), "cuda:0")
        before = accelerator.memory_allocated()
        x = torch.ones(1 << 20, device=accelerator.device())
        self.assertGreaterEqual(accelerator.memory_allocated() - before, x.nbytes)
        self.assertGreaterEqual(accelerator.max_memory_allocated(), accelerator.memory_allocated())
        self.assertTrue(accelerator.on_accelerator(x))
        self.assertFalse(accelerator.on_accelerator(x.cpu()))
        self.assertTrue(accelerator.pin_memory(torch.ones(3)).is_pinned())
        del x
        accelerator.synchronize()
        accelerator.empty_cache()
        self.assertEqual(accelerator.memory_allocated(), before)


if __name__ == "__main__":
    unittest.main()
