"""How fast a recipe trains here: its own batches in their own order, beside what the machine's matrices could do."""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from qkv import runtime
from qkv.data.sampling import Position
from qkv.models.base import parameters
from qkv.train.machine import matrix_rate
from qkv.train.plan import flops
from qkv.train.profile import WARM, Profile, profile
from qkv.train.recipe import Recipe
from qkv.train.trial import trial


@dataclass(frozen=True)
class Speed:
    """Medians over the steps that were timed; tokens are the target's, padding apart."""

    parameters: int
    precision: str
    threads: int
    steps: int
    tokens_per_second: float
    slowest: float
    fastest: float
    seconds_a_step: float
    tokens_a_step: float
    padding: float
    waited: float  # the share of the time that steps waited for data
    flops_rate: float
    matrix_rate: float
    peak: int  # bytes

    @property
    def share(self) -> float:
        """Of the machine's matrix rate."""
        return self.flops_rate / self.matrix_rate


def speed(recipe: Recipe, cache: Path, steps: int, say: Callable[[str], None] = lambda text: None) -> Speed:
    """Times so many steps, one by one."""
    data = recipe.data.build().prepare(cache, lambda progress: say(str(progress)))
    with trial(recipe, data) as trainer:
        took, tokens = [], []
        with trainer.data.feed(trainer.sampler, Position(0, 0), recipe.train.seed) as feed:
            for _ in range(WARM):
                trainer.step(next(feed))
            before = feed.waited
            for number in range(1, steps + 1):
                began = time.perf_counter()
                batch = next(feed)
                trainer.step(batch)
                runtime.wait_for(trainer.device)
                took.append(time.perf_counter() - began)
                tokens.append(batch.counts["target_tokens"])
                say(f"step {number} of {steps}: {tokens[-1] / took[-1]:,.0f} tokens/s")
            waited = feed.waited - before
        peak = runtime.peak_memory()
        work = flops(trainer, batch)
        rate = matrix_rate(trainer.precision)
        rates = [count / seconds for count, seconds in zip(tokens, took, strict=True)]
        typical = statistics.median(rates)
        return Speed(
            parameters=parameters(trainer.model),
            precision=trainer.precision,
            threads=torch.get_num_threads(),
            steps=steps,
            tokens_per_second=typical,
            slowest=min(rates),
            fastest=max(rates),
            seconds_a_step=statistics.median(took),
            tokens_a_step=sum(tokens) / steps,
            padding=trainer.sampler.plan(0).padding,
            waited=waited / sum(took),
            flops_rate=work * typical,
            matrix_rate=rate,
            peak=peak,
        )


def profiled(recipe: Recipe, cache: Path, steps: int, say: Callable[[str], None] = lambda text: None) -> Profile:
    """Where so many steps' time goes."""
    data = recipe.data.build().prepare(cache, lambda progress: say(str(progress)))
    with trial(recipe, data) as trainer, data.feed(trainer.sampler, Position(0, 0), recipe.train.seed) as feed:
        return profile(trainer, feed, steps)


def as_json(made: Speed) -> dict[str, Any]:
    """As plain values, with what follows from them."""
    return {**asdict(made), "share_of_matrix_rate": made.share}
