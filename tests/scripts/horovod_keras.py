"""Keras 3 on torch, over the Horovod API, on two ranks: python horovod_keras.py FOLDER. Asserts what must hold."""

import sys
from pathlib import Path

import keras
import numpy as np

import paceline_horovod.keras as hvd

folder = Path(sys.argv[1])
hvd.init()
keras.utils.set_random_seed(hvd.rank())  # different weights everywhere, until the broadcast
data = np.random.default_rng(0).standard_normal((64, 4)).astype("float32")
labels = data.sum(1, keepdims=True)
mine = slice(hvd.rank(), None, hvd.size())


def equal_everywhere(arrays):
    flat = np.concatenate([np.ravel(np.asarray(a, dtype="float64")) for a in arrays])
    return np.ptp(hvd.allgather(flat[None]), axis=0).max() == 0.0


def compiled():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01 * hvd.size()))
    model.compile(optimizer=optimizer, loss="mse", metrics=["mae"])
    return model


try:
    keras.optimizers.Adam(lr=0.1)
    raise AssertionError("lr was accepted")
except ValueError as error:
    assert "learning_rate" in str(error), error

model = compiled()
history = model.fit(
    data[mine],
    labels[mine],
    batch_size=8,
    epochs=4,
    verbose=0,
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.02, warmup_epochs=2),
        hvd.callbacks.LearningRateScheduleCallback(0.02, 0.1, start_epoch=3),
        hvd.callbacks.BestModelCheckpoint(str(folder / f"best-{hvd.rank()}.keras"), monitor="loss"),
    ],
).history
assert equal_everywhere([v.numpy() for v in [*model.variables, *model.optimizer.variables]])
assert equal_everywhere([history["loss"], history["mae"]])
assert history["loss"][-1] < history["loss"][0]
np.testing.assert_allclose(history["lr"], [0.01 + 0.01 / 2, 0.02, 0.02, 0.002], rtol=1e-6)
assert (folder / f"best-{hvd.rank()}.keras").exists() == (hvd.rank() == 0)

hvd.allreduce(0.0)  # rank 0 has written its file
loaded = hvd.load_model(str(folder / "best-0.keras"))
assert type(loaded.optimizer).__name__ == "Adam"
assert int(loaded.optimizer.iterations.numpy()) > 0
loaded.fit(data[mine], labels[mine], batch_size=8, epochs=1, verbose=0)
assert equal_everywhere([v.numpy() for v in loaded.variables])

# one step on two ranks is one step of the whole batch on one
keras.utils.set_random_seed(1)
both, alone = compiled(), compiled()
alone.set_weights(both.get_weights())
for net, optimizer in (
    (both, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))),
    (alone, keras.optimizers.SGD(0.1)),
):
    net.compile(optimizer=optimizer, loss="mse")
both.train_on_batch(data[mine], labels[mine])
alone.train_on_batch(data, labels)
for one, two in zip(both.get_weights(), alone.get_weights(), strict=True):
    np.testing.assert_allclose(one, two, atol=1e-6)

# two batches before a step are one step of both
for average, rate in ((True, 0.1), (False, 0.05)):
    alone.set_weights(both.get_weights())
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(rate), backward_passes_per_step=2, average_aggregated_gradients=average
    )
    both.compile(optimizer=optimizer, loss="mse")
    alone.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    before = both.get_weights()
    both.train_on_batch(data[mine][:16], labels[mine][:16])
    assert all((old == new).all() for old, new in zip(before, both.get_weights(), strict=True))
    both.train_on_batch(data[mine][16:], labels[mine][16:])
    alone.train_on_batch(data, labels)
    assert int(optimizer.iterations.numpy()) == 2
    for one, two in zip(both.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
assert hvd.allreduce(float(hvd.rank())) == 0.5
assert hvd.broadcast(np.array([hvd.rank()]), 1).tolist() == [1]
print("all held")
