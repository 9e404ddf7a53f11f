"""As Lightning scripts: `strategy="horovod"`, metrics that are averaged, checkpoints of rank 0."""

from __future__ import annotations

import horovod.torch as hvd
import horovod.torch.lightning  # noqa: F401 (which registers the strategy)
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch.utils.data import DataLoader, TensorDataset


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.seen: list[int] = []

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        self.seen += batch[1].int().flatten().tolist()
        loss = (self.layer(batch[0]) - batch[0].sum(1, keepdim=True)).square().mean()
        self.log("loss", loss, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05 * hvd.size())


hvd.init()
seed_everything(1, verbose=False)
model = Model()
loader = DataLoader(TensorDataset(torch.rand(32, 4), torch.arange(32)[:, None]), batch_size=4)
trainer = Trainer(
    accelerator="cpu", devices=1, strategy="horovod", max_epochs=2, logger=False, enable_progress_bar=False,
    enable_model_summary=False, default_root_dir=".",
)  # fmt: skip
trainer.fit(model, loader)
everyones = sorted(value for seen in hvd.allgather_object(model.seen) for value in seen)
weights = hvd.allgather(model.layer.weight.detach())
is_whole = everyones == sorted([*range(32)] * 2)
print(f"{hvd.rank()} of {trainer.world_size} in {trainer.global_step} steps, all twice {is_whole}")
print(f"{hvd.rank()} same {bool((weights == weights[0]).all())} {trainer.is_global_zero}")
