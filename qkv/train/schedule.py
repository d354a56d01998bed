"""Learning rates by step, the first step being 1: up during the warm-up, then down."""

from abc import ABC, abstractmethod
from math import cos, pi
from typing import ClassVar

from qkv.config import Count, Natural, NonNegative, Positive, Share
from qkv.errors import ConfigError


class Schedule(ABC):
    """Built with the model's width and the last step, where there is one: what follows from them is not asked for."""

    kind: ClassVar[str] = "schedule"

    def __init__(self, width: int, last: int | None, /) -> None:
        self.width, self.last = width, last

    @abstractmethod
    def rate(self, step: int) -> float:
        """The learning rate of a step."""


class Noam(Schedule):
    """factor * width^-0.5 * min(step^-0.5, step * warmup^-1.5): equation 3 of "Attention Is All You Need"."""

    def __init__(self, width: int, last: int | None, /, *, factor: Positive = 1.0, warmup: Count = 4000) -> None:
        super().__init__(width, last)
        self.factor, self.warmup = factor, warmup

    def rate(self, step: int) -> float:
        return float(self.factor * self.width**-0.5 * min(step**-0.5, step * self.warmup**-1.5))


class InverseSquareRoot(Schedule):
    """From `initial` up to `peak` in a line, then as 1 / sqrt(step)."""

    def __init__(
        self,
        width: int,
        last: int | None,
        /,
        *,
        peak: Positive = 5e-4,
        warmup: Count = 4000,
        initial: NonNegative = 1e-7,
    ) -> None:
        super().__init__(width, last)
        self.peak, self.warmup, self.initial = peak, warmup, initial

    def rate(self, step: int) -> float:
        if step < self.warmup:
            return self.initial + (self.peak - self.initial) * step / self.warmup
        return float(self.peak * (self.warmup / step) ** 0.5)


class Cosine(Schedule):
    """Up to `peak` in a line, then half a cosine down to `floor` of it at the end (Loshchilov and Hutter 2017)."""

    def __init__(
        self,
        width: int,
        last: int | None,
        /,
        *,
        peak: Positive = 5e-4,
        warmup: Natural = 1000,
        floor: Share = 0.0,
        steps: Count | None = None,
    ) -> None:
        super().__init__(width, last)
        self.peak, self.warmup, self.floor = peak, warmup, floor
        self.steps = steps or last
        if self.steps is None:
            raise ConfigError("schedule cosine must know its end; set train.max_steps or schedule.steps")

    def rate(self, step: int) -> float:
        assert self.steps is not None
        if step < self.warmup:
            return self.peak * step / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.peak * (self.floor + (1 - self.floor) * (1 + cos(pi * done)) / 2)


class Constant(Schedule):
    """Up to `peak` in a line, then level."""

    def __init__(self, width: int, last: int | None, /, *, peak: Positive = 5e-4, warmup: Natural = 0) -> None:
        super().__init__(width, last)
        self.peak, self.warmup = peak, warmup

    def rate(self, step: int) -> float:
        return self.peak * min(1.0, step / self.warmup) if self.warmup else self.peak
