"""Tokens a second of a small Llama with random weights whose layers are spread over ranks, and over Gloo beside.

    horovodrun -np 2 python examples/llama_inference.py

A layer's attention heads and its MLP's columns are shared out, so each token takes two sums over all ranks for each
layer: small messages, for which each rank waits. Where other programs take the cores meanwhile, tokens a second say
little; the CPU time that a rank needs for a token still does.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import LlamaConfig, LlamaForCausalLM

PLAN = {
    **dict.fromkeys([f"self_attn.{name}_proj" for name in "qkv"], ColwiseParallel()),
    "self_attn.o_proj": RowwiseParallel(),
    **dict.fromkeys(["mlp.gate_proj", "mlp.up_proj"], ColwiseParallel()),
    "mlp.down_proj": RowwiseParallel(),
}


def share_out(layer: torch.nn.Module, group: dist.ProcessGroup) -> None:
    """Keep this rank's rows or columns of a layer's weights, and add up what the ranks make of their columns."""

    def add_up(_: torch.nn.Module, __: object, output: torch.Tensor) -> None:
        dist.all_reduce(output, group=group)

    for name, style in PLAN.items():
        linear = layer.get_submodule(name)
        part = linear.weight.data.chunk(group.size(), int(isinstance(style, RowwiseParallel)))[group.rank()]
        linear.weight.data = part.contiguous()
        if isinstance(style, RowwiseParallel):
            linear.register_forward_hook(add_up)


def make_model(group: dist.ProcessGroup, hidden: int, layers: int, dtensor: bool) -> LlamaForCausalLM:
    """Return the model, the same one for every group, with this rank's part of each layer."""
    torch.manual_seed(1)
    heads = {"num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": layers}
    shape = {"hidden_size": hidden, "intermediate_size": 3 * hidden, "vocab_size": 1024}
    model = LlamaForCausalLM(LlamaConfig(**heads, **shape)).to(torch.bfloat16).eval()
    for layer in model.model.layers:
        if dtensor:
            parallelize_module(layer, DeviceMesh.from_group(group, "cpu"), PLAN)
        else:
            share_out(layer, group)
    return model


@torch.inference_mode()
def decode(model: LlamaForCausalLM, prompt: torch.Tensor, count: int) -> tuple[list[int], float, float]:
    """Return so many tokens, the likeliest each, and after the prompt: tokens a second, CPU milliseconds a token."""
    step = model(prompt, use_cache=True)
    tokens, begin, cpu = [int(step.logits[0, -1].argmax())], time.perf_counter(), time.process_time()
    while len(tokens) < count:
        step = model(torch.tensor([tokens[-1:]]), past_key_values=step.past_key_values, use_cache=True)
        tokens.append(int(step.logits[0, -1].argmax()))
    count -= 1
    return tokens, count / (time.perf_counter() - begin), (time.process_time() - cpu) / count * 1e3


def time_all_reduce(group: dist.ProcessGroup, size: int, calls: int) -> float:
    """Return the microseconds of a sum of `size` bytes."""
    tensor = torch.zeros(size // 2, dtype=torch.bfloat16)
    dist.all_reduce(tensor, group=group)
    begin = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor, group=group)
    return (time.perf_counter() - begin) / calls * 1e6


def main(hidden: int, layers: int, count: int, rounds: int, dtensor: bool) -> bool:
    """Decode over both backends in turns, print the median round of each, and return whether the tokens agree."""
    dist.init_process_group("roda")
    torch.set_num_threads(1)
    groups = {"roda": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    models = {name: make_model(group, hidden, layers, dtensor) for name, group in groups.items()}
    tokens: dict[str, list[int]] = {}
    rounds_of: dict[str, list[list[float]]] = {name: [] for name in groups}
    for _ in range(rounds):
        for name, model in models.items():
            dist.barrier()
            tokens[name], *figures = decode(model, torch.arange(16)[None], count)
            rounds_of[name].append(figures)
    sizes = [8192, 16384, 32768, 65536]
    rates = {name: [statistics.median(figures) for figures in zip(*some)] for name, some in rounds_of.items()}
    times = {
        name: [min(time_all_reduce(group, size, 50) for _ in range(rounds)) for size in sizes]
        for name, group in groups.items()
    }
    if dist.get_rank() == 0:
        for name, (rate, cpu) in rates.items():
            sums = ", ".join(f"{size // 1024} KB {us:.1f} us" for size, us in zip(sizes, times[name]))
            print(f"{name}: {rate:.1f} tokens/s, CPU {cpu:.1f} ms a token; all_reduce of bfloat16: {sums}")
        more, less = (rates["roda"][which] / rates["gloo"][which] for which in (0, 1))
        print(f"{more:.2f} times the tokens of gloo, {less:.2f} times the CPU time of each")
    dist.destroy_process_group()
    return tokens["roda"] == tokens["gloo"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--dtensor", action="store_true", help="by torch.distributed.tensor.parallel: slower, with any backend"
    )
    options = parser.parse_args()
    agree = main(options.hidden, options.layers, options.tokens, options.rounds, options.dtensor)
    print("the same tokens" if agree else "other tokens: sums of more than two ranks are rounded in another order")
