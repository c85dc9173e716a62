"""What describes data, schedules and models can be pickled, copied and sent to another process."""

import copy
import multiprocessing
import pickle

import pytest

import extensor as ex
from extensor import data, metrics, nn, optim, train

X, Y = ex.Key(1).normal((23, 3)), ex.arange(23)
BYTES = ex.astype(ex.Key(2).integers((11, 4, 4), 256), ex.uint8)


class Own:
    """A data set of one's own."""

    def __len__(self):
        return 7

    def batch(self, indices, key):
        return [[float(i), float(key.fold_in(i).uniform(()))] for i in indices], indices


LOADERS = {
    "pairs": lambda: data.Loader(X, Y, 5, ex.Key(3)),
    "in order": lambda: data.Loader(X, Y, 5, shuffle=False, drop_last=True),
    "windows": lambda: data.Loader(data.windows(ex.astype(ex.arange(40), ex.uint16), 4, 9), key=ex.Key(4), batch_size=2),
    "images": lambda: data.Loader(
        data.Images(BYTES, ex.arange(11)).normalize([0.5], [0.25]).augment(1, True), key=ex.Key(5), batch_size=4
    ),
    "subset": lambda: data.Loader(data.subset(data.Images(BYTES, ex.arange(11)), [1, 5, 7]), key=ex.Key(6)),
    "own": lambda: data.Loader(Own(), key=ex.Key(7), batch_size=3),
}


def batches(loader, epoch, batch, count=8):
    found = loader.start_at(epoch, batch)
    return [(x.tolist(), y.tolist(), at, after) for x, y, at, after in (next(found) for _ in range(count))]


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_a_loader_that_was_pickled_gives_the_same_batches_from_any_position(kind, again):
    loader = LOADERS[kind]()
    other = again(loader)
    assert repr(other) == repr(loader) and len(other) == len(loader)
    for position in [(0, 0), (2, 1)]:
        assert batches(other, *position) == batches(loader, *position)
    assert other.order(3) == loader.order(3)


def _read(loader, position, queue):
    queue.put(batches(loader, *position))


def test_a_loader_goes_on_from_a_position_in_a_process_that_was_spawned():
    context = multiprocessing.get_context("spawn")
    loader, queue = LOADERS["images"](), context.Queue()
    child = context.Process(target=_read, args=(loader, (1, 2), queue))
    child.start()
    found = queue.get(timeout=60)
    child.join()
    assert found == batches(loader, 1, 2)


def test_a_loader_says_what_it_is():
    assert repr(LOADERS["pairs"]()) == "Loader(23 examples in 5 batches of 5, key=Key(3))"
    assert repr(LOADERS["in order"]()) == "Loader(23 examples in 4 batches of 5, shuffle=False, drop_last=True)"
    assert repr(data.Images(BYTES, ex.arange(11))) == "<extensor.data.Images: 11 of 1 × 4 × 4>"
    assert repr(data.subset(Own(), [1, 2])) == "<extensor.data.Dataset of 2 examples>"


SCHEDULES = [
    optim.schedule.constant(0.1),
    optim.schedule.step(0.1, 3, 0.5),
    optim.schedule.multi_step(0.1, [2, 5]),
    optim.schedule.exponential(0.1, 0.9),
    optim.schedule.cosine(0.1, 9, 0.01).warm_up(3, 0.1),
    optim.schedule.cosine_restarts(0.1, 3, 2),
    optim.schedule.one_cycle(0.1, 10, three_phase=True).warm_up(1).warm_up(2),
]


@pytest.mark.parametrize("rate", SCHEDULES, ids=repr)
def test_schedules_are_pickled(rate):
    other = pickle.loads(pickle.dumps(rate))
    assert other == rate and [other(k) for k in range(12)] == [rate(k) for k in range(12)]
    assert rate != optim.schedule.constant(0.7)


def test_a_schedule_says_how_it_was_made():
    assert repr(SCHEDULES[4]) == "schedule.cosine(0.1, 9, 0.01).warm_up(3, 0.1)"
    assert repr(SCHEDULES[2]) == "schedule.multi_step(0.1, [2, 5], 0.1)"


def test_a_plateau_a_scale_an_average_a_confusion_and_a_vocabulary_are_pickled_as_they_are():
    plateau = optim.Plateau(0.1, patience=1, factor=0.5, min_lr=0.01).observe(1.0).observe(1.0)
    other = pickle.loads(pickle.dumps(plateau))
    assert other == plateau and other.observe(2.0).lr == plateau.observe(2.0).lr == 0.05
    scale = train.LossScale(1024.0, 3).after(True).after(True)
    other = pickle.loads(pickle.dumps(scale))
    assert other == scale and other.after(True).value == 2048.0
    ema = optim.Ema({"w": X}, 0.9, debiased=True).update({"w": X * 2.0})
    other = pickle.loads(pickle.dumps(ema))
    assert other.model()["w"].tolist() == ema.model()["w"].tolist() and repr(other) == repr(ema)
    assert other.update({"w": X}).model()["w"].tolist() == ema.update({"w": X}).model()["w"].tolist()
    confusion = metrics.Confusion(3)
    confusion.add([0, 1, 2, 2], [0, 2, 2, 1])
    assert pickle.loads(pickle.dumps(confusion)) == confusion != metrics.Confusion(3)
    vocabulary = data.Vocabulary("hello")
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary


def test_models_and_operations_are_pickled():
    model = nn.Sequential(nn.Linear(ex.Key(1), 3, 4), ex.pow, ex.relu, nn.BatchNorm2d(4))
    other = pickle.loads(pickle.dumps(model))
    assert repr(other) == repr(model) and other[0].weight.tolist() == model[0].weight.tolist()
    assert pickle.loads(pickle.dumps(ex.pow)).__name__ == "pow"
    assert pickle.loads(pickle.dumps(ex.ops.power)).__name__ == "power"
