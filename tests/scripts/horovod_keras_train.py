"""An old Keras script for Horovod, as it was written: nothing in it knows Paceline, or torch."""

import keras  # noqa: I001 - keras first, as scripts do: it chooses its backend now
import numpy as np

import horovod.tensorflow.keras as hvd

hvd.init()
data = np.random.default_rng(0).standard_normal((2048, 64)).astype("float32")
mine = slice(hvd.rank(), None, hvd.size())
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64)])
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size(), momentum=0.9))
model.compile(optimizer=optimizer, loss="mse")
broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
model.fit(data[mine], data[mine], batch_size=16, epochs=2, verbose=0, callbacks=[broadcast])
