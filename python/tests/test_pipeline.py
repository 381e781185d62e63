"""Modules that are cut into stages."""

import tempfile
import unittest

import graphs_on_cpu
import nets
import ranks
import torch
from torch.nn import functional as F

import cairn

STEPS, PASSES = 4, 4


class Words(torch.nn.Embedding):
    def __init__(self):
        super().__init__(nets.WORDS, nets.WIDTH)


class Masked(torch.nn.Module):
    """A layer that passes two tensors on."""

    def __init__(self):
        super().__init__()
        self.block = nets.Block()

    def forward(self, given):
        x, scale = given if isinstance(given, tuple) else (given, given.new_ones(1))
        return self.block(x) * scale, scale


def scores(words, x):
    return x @ words.weight.t()


def first(given):
    return given[0]


def loss_of(outputs, labels):
    return F.cross_entropy(outputs.flatten(0, 1).float(), labels.flatten())


def layers():
    spec = cairn.pipe.LayerSpec
    return [
        cairn.pipe.TiedLayerSpec("words", Words),
        spec(Masked),
        spec(Masked),
        first,
        spec(torch.nn.Dropout, 0.3),
        spec(torch.nn.LayerNorm, nets.WIDTH),
        cairn.pipe.TiedLayerSpec("words", Words, forward_fn=scores),
    ]


def made(stages, **changes):
    torch.manual_seed(17)
    arguments = {"num_stages": stages, "loss_fn": loss_of, "partition_method": "uniform", **changes}
    return cairn.pipe.PipelineModule(layers(), **arguments)


def batches(step, copy, passes):
    return iter([nets.batch(step, copy * passes + number) for number in range(passes)])


# What the ranks do. Each is called in processes of its own.


def train(stages, changes):
    """Losses in training and at last in evaluation, and the names of parameters."""
    net = made(stages, **changes)
    copies = cairn.comm.get_world_size() // stages
    passes = PASSES // copies
    optimizer = torch.optim.AdamW([p for p in net.parameters()], lr=1e-2, weight_decay=0.1)
    engine, *_ = cairn.initialize(net, nets.config(1, passes, optimizer=None), optimizer=optimizer)
    for part in net.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0  # random numbers of several processes are not those of one
    copy = net._core.data_rank
    losses = [engine.train_batch(batches(step, copy, passes)).item() for step in range(STEPS)]
    losses.append(engine.eval_batch(batches(9, copy, passes)).item())
    return [losses, [name for name, _ in net.named_parameters()]]


def save_and_go_on(folder):
    net = made(2)
    engine, *_ = cairn.initialize(net, nets.config(1, PASSES))
    for step in range(2):
        engine.train_batch(batches(step, 0, PASSES))
    engine.save_checkpoint(folder)
    wanted = engine.train_batch(batches(2, 0, PASSES)).item()
    engine.load_checkpoint(folder)
    return [wanted, engine.train_batch(batches(2, 0, PASSES)).item()]


def loads_its_own_data():
    data = [nets.batch(step, 0) for step in range(8)]
    samples = torch.utils.data.TensorDataset(torch.cat([x for x, _ in data]), torch.cat([y for _, y in data]))
    engine, *_ = cairn.initialize(made(2), nets.config(0, 2), training_data=samples)
    return [engine.train_batch().item() for _ in range(8)]


def refusals():
    texts = []

    def refused(call):
        try:
            call()
        except cairn.Error as error:
            texts.append(str(error))

    engine, *_ = cairn.initialize(made(1), nets.config())
    refused(lambda: engine(nets.batch(0, 0)[0]))
    refused(lambda: engine.module(nets.batch(0, 0)[0]))
    refused(lambda: engine.module_state_dict())
    refused(lambda: engine.train_batch(iter([nets.batch(0, 0)[0]])))
    refused(lambda: cairn.pipe.PipelineModule([3], num_stages=1))
    refused(lambda: made(1, use_reentrant=True))
    refused(lambda: cairn.pipe.PipelineModule([cairn.pipe.TiedLayerSpec("a", torch.nn.ReLU)], num_stages=1))
    return texts


def trains_cuda_graphs():
    """What train_batch() says where every stage has a CUDA graph, and its losses where
    there is one stage."""
    stages = cairn.comm.get_world_size()
    net = made(stages)
    engine, *_ = cairn.initialize(net, nets.config(1, PASSES))
    parts = [part for part in net.modules() if isinstance(part, torch.nn.LayerNorm)]
    nets.record_blocks(parts[-1:], make_graphs=graphs_on_cpu.make_graphed_callables)
    for part in net.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    try:
        return [engine.train_batch(batches(step, 0, PASSES)).item() for step in range(STEPS)]
    except cairn.UsageError as error:
        return str(error)


def fails_in_a_layer():
    def broken(x):
        raise KeyError("mine")

    linear = cairn.pipe.LayerSpec(torch.nn.Linear, 2, 2)
    net = cairn.pipe.PipelineModule(
        [linear, linear, broken, linear], num_stages=2, loss_fn=loss_of, partition_method="uniform"
    )
    engine, *_ = cairn.initialize(net, nets.config())
    try:
        engine.train_batch(iter([(torch.ones(2, 2), torch.ones(2, 2))]))
    except KeyError as error:
        return f"KeyError {error}"
    except cairn.Error as error:
        return f"{type(error).__name__} {error}"


def plain():
    """What torch alone computes."""
    torch.manual_seed(17)
    modules = []
    words = None
    for number, layer in enumerate(layers()):
        if isinstance(layer, cairn.pipe.TiedLayerSpec) and words is not None:
            modules.append(lambda x: scores(words, x))
        elif isinstance(layer, cairn.pipe.LayerSpec):
            torch.manual_seed(17 + number)
            modules.append(layer.build())
            words = words if words is not None else modules[0]
        else:
            modules.append(layer)

    def run(x, y):
        for module in modules:
            if not isinstance(module, torch.nn.Dropout):
                x = module(x)
        return loss_of(x, y)

    parameters = [p for module in modules if isinstance(module, torch.nn.Module) for p in module.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        mean = 0.0
        for x, y in batches(step, 0, PASSES):
            loss = run(x, y) / PASSES
            loss.backward()
            mean += loss.item()
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        losses.append(mean)
    with torch.no_grad():
        losses.append(sum(run(x, y).item() for x, y in batches(9, 0, PASSES)) / PASSES)
    return losses


class Pipelines(unittest.TestCase):
    def test_train_as_torch_does(self):
        wanted = plain()
        names = None
        ways = ((1, 1, {}), (2, 2, {}), (2, 2, {"activation_checkpoint_interval": 2}), (4, 2, {"partition_method": "parameters"}))
        for count, stages, changes in ways:
            with self.subTest(ranks=count, stages=stages, **changes):
                outcomes = ranks.run(train, count, stages, changes)
                for losses, _ in outcomes:
                    for got, one in zip(losses, wanted, strict=True):
                        self.assertAlmostEqual(got, one, 4)
                own = sorted({name for _, mine in outcomes for name in mine})
                self.assertEqual(names or own, own)
                names = own

    def test_the_seed_is_the_layer_s_own(self):
        losses = [ranks.run(train, count, count, {"seed_layers": True, "base_seed": 5})[0][0] for count in (1, 2)]
        for one, other in zip(*losses):
            self.assertAlmostEqual(one, other, 4)
        self.assertNotAlmostEqual(losses[0][0], plain()[0], 4)

    def test_goes_on_from_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            for wanted, got in ranks.run(save_and_go_on, 2, folder):
                self.assertEqual(wanted, got)
            weights = cairn.load(folder)
            self.assertIn("layers.0.weight", weights)
            self.assertIn("layers.1.block.qkv.weight", weights)

    def test_loads_its_own_data(self):
        first, last = ranks.run(loads_its_own_data, 2)
        self.assertEqual(first, last)
        self.assertLess(first[-1], first[0])

    def test_refuses_what_it_cannot_do(self):
        texts = ranks.run(refusals, 1)[0]
        wanted = ["train_batch", "initialize", "save_checkpoint", "(inputs, labels)", "is a int", "use_reentrant", "tied_weight_attr"]
        self.assertEqual(len(texts), len(wanted), texts)
        for text, part in zip(texts, wanted):
            self.assertIn(part, text)

    def test_layers_as_cuda_graphs(self):
        for one, other in zip(ranks.run(trains_cuda_graphs, 1)[0], plain()):
            self.assertAlmostEqual(one, other, 4)
        for said in ranks.run(trains_cuda_graphs, 2):
            self.assertIn("is a CUDA graph, which keeps the values of one micro batch", said)

    def test_a_layer_that_fails(self):
        one, other = ranks.run(fails_in_a_layer, 2)
        self.assertIn("mine", one)
        self.assertEqual(other, "KeyError 'mine'")


if __name__ == "__main__":
    unittest.main()
