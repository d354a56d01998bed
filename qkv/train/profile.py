"""Where a training step's time goes, by kind of work: for any recipe, on a CPU or a GPU.

The profiler gives every operation its self time. An operation counts by its own name (a product of matrices is one
wherever it stands), else by the region it stands in (`qkv/tracing.py`), on the way back by the region of the operation
that it is the gradient of. On a GPU the times are the device's, and `idle` is what it waited for the host.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch.profiler import ProfilerActivity

from qkv import runtime
from qkv.data.batch import Batch
from qkv.tracing import MARK, Kind, region
from qkv.train.loop import Trainer

WARM = 3  # steps before anything is timed
KINDS: tuple[str, ...] = (*get_args(Kind), "idle")
NAMES: dict[str, re.Pattern[str]] = {
    "matrix": re.compile(r"aten::_?(mm|addmm|bmm|baddbmm|linear|scaled_mm|grouped_mm|convolution\w*|mkldnn\w*)"),
    "attention": re.compile(r"aten::_?(scaled_dot_product\w*|flash_attention\w*|efficient_attention\w*)"),
    "norm": re.compile(r"aten::\w*(layer|rms|batch|group)_norm\w*"),
    "dropout": re.compile(r"aten::(native_dropout\w*|bernoulli\w*)"),
    "loss": re.compile(r"aten::(nll_loss\w*|cross_entropy\w*|_?log_softmax\w*|logsumexp)"),
    "optimizer": re.compile(r"aten::_(fused_adam\w*|foreach_\w*)|Optimizer\.\w+#.*"),
}
WHOLE = ("attention", "norm", "optimizer")  # whose named operations are made of others, which count with them


@dataclass(frozen=True)
class Profile:
    """Seconds a step, and their shares by kind; the operations that took most of each."""

    seconds: float
    device: str
    shares: dict[str, float]
    operations: dict[str, dict[str, float]]  # by kind: name and share of the step, the largest first


def profile(trainer: Trainer, feed: Iterator[Batch], steps: int, *, largest: int = 4) -> Profile:
    """So many steps from the feed, looked at, after a few to warm up."""
    gpu = trainer.device.type == "cuda"
    for _ in range(WARM):
        trainer.step(next(feed))
    runtime.wait_for(trainer.device)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]) as found:
        began = time.perf_counter()
        for _ in range(steps):
            with region("data"):
                batch = next(feed)
            trainer.step(batch)
        runtime.wait_for(trainer.device)
        seconds = time.perf_counter() - began
    return _summed(list(found.events() or []), seconds, steps, gpu, largest)


def _summed(events: list[Any], seconds: float, steps: int, gpu: bool, largest: int) -> Profile:
    # The region of each operation that has a gradient, by the number that its gradient carries too.
    regions = {e.sequence_nr: kind for e in events if e.sequence_nr >= 0 and (kind := _marked(e)) is not None}
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for event in events:
        own = event.self_device_time_total if gpu else event.self_cpu_time_total
        if own > 0 and event.device_type.name == "CPU":
            sums[_kind(event, regions)][event.name] += own / 1e6 / seconds
    shares = {kind: sum(sums[kind].values(), 0.0) for kind in KINDS}
    rest = max(0.0, 1 - sum(shares.values()))
    # Beside the operations there is Python; on a GPU, time in which nothing ran there.
    shares["idle" if gpu else "other"] += rest
    if rest and not gpu:
        sums["other"]["Python and dispatch"] += rest
    by_kind = {}
    for kind, named in sums.items():
        ranked = sorted(named.items(), key=lambda item: -item[1])
        by_kind[kind] = dict(ranked[:largest])
    return Profile(seconds / steps, "cuda" if gpu else "cpu", shares, by_kind)


def _kind(event: Any, regions: dict[int, str]) -> str:
    if (named := _named(event)) is not None:
        return named
    if (marked := _marked(event)) is not None:
        return marked
    at = event
    while at is not None:
        if at.sequence_nr in regions:
            return regions[at.sequence_nr]
        at = at.cpu_parent
    return "other"


def _named(event: Any) -> str | None:
    """The kind that an operation's own name says."""
    return next((kind for kind, pattern in NAMES.items() if pattern.fullmatch(event.name)), None)


def _marked(event: Any) -> str | None:
    """The innermost region that an event is, or stands in; a larger operation of one kind is one."""
    at = event
    while at is not None:
        if at.name.startswith(MARK):
            return str(at.name.removeprefix(MARK))
        if (kind := _named(at)) in WHOLE:
            return kind
        at = at.cpu_parent
    return None
