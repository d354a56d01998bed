"""The guard of a run: a step whose loss or gradient is no number, or far above the usual, changes nothing.

Judged where the numbers are, so that no step waits for the device: a bad step reaches the optimizer as `found_inf`, by
which PyTorch's fused kernels leave weights and moments as they were. The host looks now and then. When nothing but bad
steps has come for a while, the run has diverged: it goes back to the last checkpoint from before them and on with a
lower rate, and after a few such returns it gives up.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from qkv.config import Count, Natural, NonNegative, Positive, Settings

WARM = 20  # good steps, before any loss is held to be unusual
MEMORY = 0.98  # of the running mean, a step
SMALLEST = 0.1  # a mean below this counts as this: small losses may well treble
# What the state holds: the running mean, the good steps that made it; bad steps in all and in a row; the last one's
# kind (of REASONS) and its ratio to the mean.
MEAN, GOOD, BAD, STREAK, KIND, RATIO = range(6)
REASONS = ("the loss is no number", "the gradient is no number", "the loss is {ratio:.1f} times the usual")


@dataclass(frozen=True, kw_only=True)
class GuardSettings(Settings):
    """What counts as a bad step, and what becomes of a run that makes nothing else."""

    spike: NonNegative = 3.0  # times the running mean of the loss, above which a step is skipped; 0: never
    patience: Count = 20  # bad steps in a row, then back to the last good checkpoint
    slower: Positive = 0.5  # the learning rate's factor after each return
    returns: Natural = 3  # then the run gives up


class Look(NamedTuple):
    """What the host sees when it looks."""

    skipped: int  # since the last look
    streak: int  # bad steps in a row, up to now
    reason: str  # of the last bad step


class Guard:
    """Judges steps; all it knows are tensors on the device, saved and restored with the run."""

    def __init__(self, settings: GuardSettings, device: torch.device, /) -> None:
        self.settings = settings
        self.state = torch.zeros(6, dtype=torch.float64, device=device)
        self._seen = 0

    def judge(self, loss: Tensor, norm: Tensor) -> Tensor:
        """1.0 for a step that must change nothing, else 0.0; a tensor on the device."""
        mean, good, bad, streak, _, _ = self.state
        value, weight = loss.detach().double(), 1 - MEMORY
        ratio = value / mean.clamp_min(SMALLEST)
        lost, wild = ~value.isfinite(), ~norm.isfinite()
        spike = (good >= WARM) & (ratio > self.settings.spike) if self.settings.spike else torch.zeros_like(lost)
        skip = lost | wild | spike
        kind = torch.where(lost, 0.0, torch.where(wild, 1.0, 2.0)).double()
        # Early on the mean is that of all steps so far.
        share = torch.maximum(1 / (good + 1), torch.full_like(good, weight))
        self.state = torch.stack(
            [
                torch.where(skip, mean, mean + share * (value - mean)),
                torch.where(skip, good, good + 1),
                torch.where(skip, bad + 1, bad),
                torch.where(skip, streak + 1, torch.zeros_like(streak)),
                torch.where(skip, kind, self.state[KIND]),
                torch.where(skip & ~lost, ratio, self.state[RATIO]),
            ]
        )
        return skip.float()

    def look(self) -> Look:
        """Waits for the device."""
        _, _, bad, streak, kind, ratio = self.state.tolist()
        skipped, self._seen = int(bad) - self._seen, int(bad)
        return Look(skipped, int(streak), REASONS[int(kind)].format(ratio=ratio))

    def forgive(self) -> None:
        """After a return: nothing is bad in a row any more, and what is usual is learned anew."""
        self.state[[MEAN, GOOD, STREAK]] = 0

    def load(self, state: Tensor) -> None:
        """The state of a checkpoint."""
        self.state = state.to(self.state.device).clone()
        self._seen = int(self.state[BAD])
