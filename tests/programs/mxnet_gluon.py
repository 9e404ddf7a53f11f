"""As the Gluon scripts: a trainer that reduces, parameters that come from rank 0, metrics that are averaged."""

from __future__ import annotations

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

hvd.init()
mx.random.seed(42 + hvd.rank())
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(8, activation="relu"), gluon.nn.Dense(2))
net.initialize(mx.init.Xavier(), ctx=mx.cpu())
net.hybridize()
params = net.collect_params()
hvd.broadcast_parameters(params, root_rank=0)
optimizer_params = {"learning_rate": 0.1 * hvd.size(), "momentum": 0.9, "rescale_grad": 1.0 / 16}
trainer = hvd.DistributedTrainer(params, mx.optimizer.create("sgd", **optimizer_params), gradient_predivide_factor=1.0)
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
metric = mx.metric.Accuracy()
data = mx.nd.array(np.random.RandomState(hvd.rank()).rand(64, 4))
label = (data.sum(axis=1) > 2).astype("int32")
for _ in range(10):
    metric.reset()
    for start in range(0, 64, 16):
        batch, target = data[start : start + 16], label[start : start + 16]
        with autograd.record():
            output = net(batch.astype("float32"))
            loss = loss_fn(output, target)
        loss.backward()
        trainer.step(1)
        metric.update([target], [output])
accuracy = hvd.allreduce(mx.nd.array([metric.get()[1]]), name="accuracy").asscalar()
weights = hvd.allgather(net[0].weight.data().reshape((1, -1))).asnumpy()
print(f"{hvd.rank()} same {np.array_equal(weights[0], weights[-1])} accuracy {accuracy > 0.8}")
