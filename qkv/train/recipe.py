"""A run's config: the sections of the YAML file, each value with its default in the constructor that it configures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from qkv import config
from qkv.config import Count, Natural, NonNegative, Part, Positive, Probability, Settings
from qkv.data.parallel import Parallel
from qkv.decode.settings import SearchSettings
from qkv.errors import ConfigError
from qkv.models.base import Model
from qkv.objectives.base import Objective
from qkv.train.guard import GuardSettings
from qkv.train.optim import Optimizer
from qkv.train.schedule import Schedule

LIMITS = ("max_steps", "max_epochs", "max_minutes")
# What may change between a stop and going on: it does not touch what the next step computes.
SAID = ("report_seconds", "samples", "report", "tensorboard")
MAY_CHANGE = {f"train.{name}" for name in (*LIMITS, *SAID, "patience", "keep")}
MAY_CHANGE |= {"data.folder", "data.cache"}  # the text itself is held against the run's by its hash


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Settings):
    """How long, how much at a time, how often to look, and what to keep."""

    seed: Natural = 1
    max_steps: Count | None = None
    max_epochs: Count | None = None
    max_minutes: Positive | None = None  # of the run's own time, over all its sittings
    max_tokens: Count = 4096  # rows x the longest side of a step's batch
    parts: Count = 1  # a step's batch goes through in so many parts: less memory, the same gradient
    clip: NonNegative = 0.0  # the largest norm of a gradient; 0: no clipping, as in the paper
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    validate_every: Count | None = None  # steps; left out: once an epoch
    save_every: Count = 1000  # steps; and at every validation
    keep: Count = 2
    metric: Literal["nll", "bleu", "chrf"] = "nll"  # on the development set: what is best, when to stop
    patience: Count | None = None  # validations without a better one
    average: Natural = 0  # the last so many validations' weights are averaged at the end (the paper: 5, big 20)
    ema: Probability = 0.0  # the decay of a moving average of the weights, which then validates and is kept; 0: none
    report_seconds: NonNegative = 10.0
    samples: Natural = 3  # development sentences translated at each validation, for the report
    report: bool = True  # report.html at the end, with scores by length and attention
    tensorboard: bool = False


@dataclass(frozen=True, kw_only=True)
class Recipe(Settings):
    """All that decides a run."""

    data: Part[Parallel] = Part("data", "parallel")
    model: Part[Model] = Part("model", "transformer")
    objective: Part[Objective] = Part("objective", "seq2seq")
    optim: Part[Optimizer] = Part("optimizer", "adam")
    schedule: Part[Schedule] = Part("schedule", "noam")
    train: TrainSettings = TrainSettings()
    guard: GuardSettings = GuardSettings()
    decode: SearchSettings = SearchSettings()

    def check_end(self) -> None:
        """Training must be told when to stop."""
        if all(getattr(self.train, name) is None for name in LIMITS):
            named = ", ".join(f"train.{name}" for name in LIMITS)
            raise ConfigError(f"training has no end; set one of {named}")


def recipe(file: Path | None, overrides: Sequence[tuple[str, str]]) -> Recipe:
    """The resolved recipe of a YAML file and dotted overrides; a mistake names the file it stands in."""
    where = f"{file} + overrides: " if file and overrides else f"{file}: " if file else ""
    tree = {} if file is None else config.read(file)
    try:
        return config.section(Recipe, config.overridden(tree, list(overrides)))
    except ConfigError as error:
        shown = "qkv train --data.train FILE --print-config"
        raise ConfigError(f"{where}{error}  ({shown} shows all settings)") from None


def differences(old: Any, new: Any) -> list[str]:
    """The dotted names at which two resolved recipes differ, but for what may change."""
    # A schedule with `steps` left out takes its end from max_steps, which then decides every step's rate.
    follows = isinstance(new, dict) and new.get("schedule", {}).get("steps", 0) is None
    may_change = MAY_CHANGE - {"train.max_steps"} if follows else MAY_CHANGE
    return [name for name in _differing(old, new) if name not in may_change]


def _differing(old: Any, new: Any, where: str = "") -> list[str]:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [where or "all of it"]
    found: list[str] = []
    for name in sorted(old.keys() | new.keys()):
        dotted = f"{where}.{name}" if where else name
        found += _differing(old[name], new[name], dotted) if name in old and name in new else [dotted]
    return found
