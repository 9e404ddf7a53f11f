#!/usr/bin/env python3
"""Trains three small models with gradients in each wire format, and tells what their losses are beside float32's.

Two ranks, each on a host of its own: every message of a gradient is in the format. A convolutional network with batch
norm on scikit-learn's digits (SGD), a transformer that writes sonnets letter by letter (AdamW), and a perceptron over
embeddings of the last letters (Adam). The loss of the end is the mean of the last fifth of the steps: of the same
batches, whatever the format. Each format runs with the error fed back, as users have it, and without.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean

FORMATS = ("none", "bf16_wire", "fp8", "int8", "int4")
# Has each rank think that it is alone on its host.
ON_TWO_HOSTS = (
    "HOROVOD_HOSTNAME=host$HOROVOD_RANK HOROVOD_LOCAL_RANK=0 HOROVOD_LOCAL_SIZE=1 HOROVOD_CROSS_RANK=$HOROVOD_RANK "
    'HOROVOD_CROSS_SIZE=2 exec "$0" "$@"'
)
SONNETS = Path(__file__).resolve().parents[1] / "examples/data/sonnets.txt"
CONTEXT = 48


def digits(torch, generator, batch) -> tuple:
    """A convolutional network with batch norm, and batches of this rank's digits."""
    from sklearn.datasets import load_digits

    nn, data = torch.nn, load_digits()
    images = torch.from_numpy(data.images).float().div(16).unsqueeze(1)
    labels = torch.from_numpy(data.target)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip

    def draw() -> tuple:
        rows = batch(len(images), 16, generator)
        return images[rows] + 0.3 * torch.randn(len(rows), 1, 8, 8, generator=generator), labels[rows]

    return model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), draw


def letters(torch, generator, batch, length: int) -> tuple[int, Callable[[], tuple]]:
    """How many letters there are, and batches of this rank's pieces of text with the letters that come next."""
    text = SONNETS.read_text()
    known = sorted(set(text))
    numbers = torch.tensor([known.index(letter) for letter in text])

    def draw() -> tuple:
        starts = batch(len(numbers) - length - 1, 16, generator)
        places = starts.unsqueeze(1) + torch.arange(length + 1)
        return numbers[places][:, :-1], numbers[places][:, 1:]

    return len(known), draw


def sonnets(torch, generator, batch) -> tuple:
    """A transformer of two layers over letters."""
    nn = torch.nn
    count, draw = letters(torch, generator, batch, CONTEXT)

    class Writer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.places = nn.Embedding(count, 64), nn.Embedding(CONTEXT, 64)
            layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.out = nn.Linear(64, count)
            self.mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)

        def forward(self, x):
            x = self.letters(x) + self.places(torch.arange(CONTEXT))
            return self.out(self.layers(x, mask=self.mask, is_causal=True)).flatten(0, 1)

    model = Writer()
    return model, torch.optim.AdamW(model.parameters(), lr=2e-3), draw


def embeddings(torch, generator, batch) -> tuple:
    """A perceptron over embeddings of the last eight letters: most rows of its largest gradient are zero."""
    nn = torch.nn
    count, draw = letters(torch, generator, batch, 8)
    model = nn.Sequential(nn.Embedding(count, 32), nn.Flatten(), nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, count))
    return model, torch.optim.Adam(model.parameters(), lr=2e-3), lambda: (lambda x, y: (x, y[:, -1]))(*draw())


MODELS = {"digits": digits, "sonnets": sonnets, "embeddings": embeddings}
STEPS = {"digits": 600, "sonnets": 600, "embeddings": 1500}


def losses(hvd, torch, name: str, seed: int, wire_format: str, share: float) -> Iterator[float]:
    """The mean loss of all ranks, step by step."""
    generator = torch.Generator().manual_seed(1000 * seed + hvd.rank())

    def batch(rows: int, size: int, generator):
        return torch.randint(rows, (size,), generator=generator)

    torch.manual_seed(seed)  # the same weights on each rank
    model, inner, draw = MODELS[name](torch, generator, batch)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), getattr(hvd.Compression, wire_format))
    for _ in range(int(share * STEPS[name])):
        x, y = draw()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y.flatten())
        loss.backward()
        optimizer.step()
        yield hvd.allreduce(loss.detach()).item()


def off_by(hvd, torch, wire_format: str) -> float:
    """The mean squared error of a sum of normal numbers over their mean square (vNMSE)."""
    numbers = [torch.randn(1 << 20, generator=torch.Generator().manual_seed(rank)) for rank in range(hvd.size())]
    right = sum(number.double() for number in numbers)
    compression = getattr(hvd.Compression, wire_format)
    got = hvd.allreduce(numbers[hvd.rank()], op=hvd.Sum, name=wire_format, compression=compression)
    return ((got - right).square().mean() / right.square().mean()).item()


def train(options: argparse.Namespace) -> None:
    """What each rank does; rank 0 prints."""
    import horovod.torch as hvd
    import torch

    torch.set_num_threads(1)
    hvd.init()
    for wire_format in options.formats:
        error = off_by(hvd, torch, wire_format)
        if hvd.rank() == 0:
            print(json.dumps({"format": wire_format, "vnmse": error}), flush=True)
        for name in options.models:
            for seed in range(options.seeds):
                curve = list(losses(hvd, torch, name, seed, wire_format, options.share))
                if hvd.rank() == 0:
                    print(json.dumps({"format": wire_format, "model": name, "curve": curve}), flush=True)


def told(arguments: list[str], feedback: bool) -> list[dict]:
    """What rank 0 of a job says."""
    environment = os.environ | ({} if feedback else {"HOROVOD_WIRE_RESIDUAL_BYTES": "0"})
    here = Path(sys.executable).parent
    command = [str(here / "horovodrun"), "-np", "2", "sh", "-c", ON_TWO_HOSTS, sys.executable, __file__, "--train"]
    done = subprocess.run([*command, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    lines = (line[line.index("{") :] for line in done.stdout.splitlines() if "{" in line)
    return [{**json.loads(line), "feedback": feedback} for line in lines]


def end_of(curve: list[float]) -> float:
    """The mean of the last fifth."""
    return mean(curve[-max(1, len(curve) // 5) :])


def table(runs: list[dict], models: list[str]) -> str:
    """Markdown: a row for each format, a column for each model; the mean over seeds, and the farthest seed."""
    ends: dict[tuple, list[float]] = {}
    for run in runs:
        if "curve" in run:
            ends.setdefault((run["format"], run["feedback"], run["model"]), []).append(end_of(run["curve"]))
    heads = "".join(f" {model} |" for model in models)
    rows = [f"| format | feedback | vNMSE |{heads}", "|---|---|---|" + "---|" * len(models)]
    for run in runs:
        if "vnmse" not in run:
            continue
        row = f"| {run['format']} | {'on' if run['feedback'] else 'off'} | {run['vnmse']:.2g} |"
        for model in models:
            mine, plain = ends[run["format"], run["feedback"], model], ends["none", True, model]
            farthest = max((100 * (a / b - 1) for a, b in zip(mine, plain, strict=True)), key=abs)
            off = 100 * (mean(mine) / mean(plain) - 1)
            row += f" {mean(mine):.4f} ({off:+.2f} %, farthest {farthest:+.2f} %) |"
        rows.append(row)
    return "\n".join(rows)


def main() -> int:
    """Train in two jobs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the steps: less to try it")
    parser.add_argument("--json", type=Path, help="write the curves here")
    options = parser.parse_args()
    if options.train:
        train(options)
        return 0
    shared = ["--models", *options.models, "--seeds", str(options.seeds), "--share", str(options.share), "--formats"]
    runs = told([*shared, *options.formats], feedback=True)
    fed = [name for name in options.formats if name in ("int8", "int4")]
    runs += told([*shared, *fed], feedback=False) if fed else []
    if options.json:
        options.json.write_text(json.dumps(runs))
    print(table(runs, options.models))
    return 0


if __name__ == "__main__":
    sys.exit(main())
