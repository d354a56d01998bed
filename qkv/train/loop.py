"""The one training loop: batch, losses, gradient, step; validate, save, stop; go on exactly where it was stopped.

Nothing in a step looks back from the device to the host: losses stay tensors until a line of the log is due.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from qkv import runtime
from qkv.data.batch import Batch
from qkv.data.collate import Feed
from qkv.data.parallel import PreparedParallel
from qkv.data.sampling import Position
from qkv.errors import BundleError
from qkv.lock import FolderLock
from qkv.models.base import Sizes, build
from qkv.random import Noise
from qkv.train.average import Moving
from qkv.train.checkpoint import Checkpoints, Saved
from qkv.train.journal import Journal
from qkv.train.precision import Masters
from qkv.train.recipe import Recipe
from qkv.train.validate import Verdict, validate


@dataclass
class Progress:
    """Where a run is: all that is saved beside tensors."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    elapsed: float = 0.0
    best: float | None = None
    best_step: int = 0
    since_best: int = 0
    validated: int = 0  # the step of the last validation
    snapshots: list[int] = field(default_factory=list)
    finished: str = ""  # why it ended, once it has


class Trainer:
    """A run in a folder: built from its recipe, or taken up from its last checkpoint."""

    def __init__(self, recipe: Recipe, data: PreparedParallel, folder: Path, lock: FolderLock, /) -> None:
        self.recipe, self.data, self.folder, settings = recipe, data, folder, recipe.train
        self.device = runtime.device()
        self.precision = runtime.pick_precision() if settings.precision == "auto" else settings.precision
        model = build(recipe.model, Sizes(data.source.size, data.target.size), settings.seed).to(self.device)
        self.objective = recipe.objective.build(model).to(self.device)
        self.model = model
        self.masters = Masters(self.objective, self.precision)
        self.optimizer = recipe.optim.build(self.masters.parameters.values())
        width = int(recipe.model.options.get("width", 1))
        self.schedule = recipe.schedule.build(width, settings.max_steps)
        self.moving = Moving(settings.ema, self.masters.tensors()) if settings.ema else None
        self.sampler = data.sampler(max_tokens=settings.max_tokens, seed=settings.seed)
        self.checkpoints = Checkpoints(folder / "checkpoints", keep=settings.keep, lock=lock)
        self.snapshots = Checkpoints(folder / "snapshots", keep=max(2, settings.average), lock=lock)
        self.at = Progress()
        self.stop = ""

    # ------------------------------------------------------------------------------------------------- one step

    def step(self, batch: Batch) -> dict[str, Tensor]:
        """One update from one batch, in its parts; the losses of the whole batch."""
        settings, number = self.recipe.train, self.at.step + 1
        sums: dict[str, Tensor] = {}
        for part in batch.divided(settings.parts):
            there = part.to(self.device)
            losses = self.objective(there, batch.counts, Noise(settings.seed, number, there.samples))
            losses["loss"].backward()
            self.masters.collect()
            for name, value in losses.items():
                sums[name] = sums[name] + value.detach() if name in sums else value.detach()
        if settings.clip:
            torch.nn.utils.clip_grad_norm_(self.masters.parameters.values(), settings.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.rate(number)
        self.optimizer.step()
        self.masters.clear()
        self.masters.spread()
        if self.moving is not None:
            self.moving.update(self.masters.tensors(), number)
        return sums

    # ------------------------------------------------------------------------------------------------- the run

    def run(self, journal: Journal) -> str:
        """Trains until the recipe's end, patience's end or a signal; says which."""
        settings, at = self.recipe.train, self.at
        self.objective.train()
        began = time.monotonic() - at.elapsed
        feed = self.data.feed(self.sampler, Position(at.epoch, at.batch), settings.seed)
        with feed, self._signals():
            while not (self.stop or self._ended()):
                batch = next(feed)
                losses = self.step(batch)
                assert feed.position is not None
                at.step, at.epoch, at.batch = at.step + 1, feed.position.epoch, feed.position.batch
                at.elapsed = time.monotonic() - began
                journal.step(losses, batch.counts["target_tokens"], _cells(batch))
                if journal.due:
                    self._report(journal, feed)
                if self._validation_due():
                    self._report(journal, feed)
                    paused = journal.pause()
                    self._validate(journal)
                    at.elapsed = time.monotonic() - began
                    self.save("best" if at.best_step == at.step else None)
                    journal.resume(paused)
                elif at.step % settings.save_every == 0:
                    self.save()
            self._report(journal, feed)
        at.elapsed = time.monotonic() - began
        at.finished = "" if self.stop else self._ended()
        if not self.stop and self.data.dev is not None and at.validated != at.step:
            self._validate(journal)
            self.save("best" if at.best_step == at.step else None)
        else:
            self.save()
        return self.stop or at.finished

    def _ended(self) -> str:
        settings, at = self.recipe.train, self.at
        if settings.max_steps is not None and at.step >= settings.max_steps:
            return f"max_steps {settings.max_steps:,}"
        if settings.max_epochs is not None and at.epoch >= settings.max_epochs:
            return f"max_epochs {settings.max_epochs}"
        if settings.max_minutes is not None and at.elapsed >= 60 * settings.max_minutes:
            return f"max_minutes {settings.max_minutes:g}"
        if settings.patience is not None and at.since_best >= settings.patience:
            return f"no better {settings.metric} in {settings.patience} validations"
        return ""

    def done(self) -> float | None:
        """The share of the run that is behind, by whichever limit comes first; None while that can't be said."""
        settings, at = self.recipe.train, self.at
        shares = [
            at.step / settings.max_steps if settings.max_steps else 0.0,
            (at.epoch + self._share()) / settings.max_epochs if settings.max_epochs else 0.0,
            at.elapsed / 60 / settings.max_minutes if settings.max_minutes else 0.0,
        ]
        return min(1.0, max(shares)) or None

    def _share(self) -> float:
        return self.at.batch / len(self.sampler.plan(self.at.epoch)) if self.at.batch else 0.0

    def _validation_due(self) -> bool:
        if self.data.dev is None:
            return False
        every = self.recipe.train.validate_every
        return self.at.batch == 0 if every is None else self.at.step % every == 0

    def _report(self, journal: Journal, feed: Feed) -> None:
        at = self.at
        journal.report(
            at.step, at.epoch, self._share(), self.schedule.rate(max(1, at.step)), feed.waited, self.done(), at.elapsed
        )

    def _validate(self, journal: Journal) -> None:
        settings, at = self.recipe.train, self.at
        verdict = self.judged()
        at.validated = at.step
        at.since_best += 1
        better = verdict.beats(at.best)
        if better:
            at.best, at.best_step, at.since_best = verdict.value, at.step, 0
        if settings.average > 1:
            # Before the checkpoint that counts on it.
            self.snapshots.save(at.step, {"weights": self.shown()}, {})
            at.snapshots = [*at.snapshots, at.step][-settings.average :]
        journal.write(
            step=at.step, epoch=at.epoch, dev=verdict.scores, seconds=round(verdict.seconds, 2), best_step=at.best_step
        )
        journal.say(
            f"step {at.step:,}  dev {verdict}{'  best so far' if better else f'  best {at.best:.4f} at {at.best_step:,}'}"
        )

    def judged(self, weights: dict[str, Tensor] | None = None) -> Verdict:
        """The development set's verdict on some weights; on those that would be kept if none are given."""
        settings = self.recipe.train
        own = self.masters.tensors()
        shown = weights or (self.shown() if self.moving is not None else None)
        if shown is None:
            return validate(
                self.objective, self.data, settings.metric, self.recipe.decode, settings.max_tokens, self.device
            )
        kept = {name: tensor.clone() for name, tensor in own.items()}
        self.masters.load(shown)
        try:
            return validate(
                self.objective, self.data, settings.metric, self.recipe.decode, settings.max_tokens, self.device
            )
        finally:
            self.masters.load(kept)

    def shown(self) -> dict[str, Tensor]:
        """The weights that validate and are kept: the moving average where there is one."""
        return self.moving.tensors if self.moving is not None else self.masters.tensors()

    # ------------------------------------------------------------------------------------------- stop and go on

    def save(self, pin: str | None = None) -> None:
        """A checkpoint of everything."""
        self.checkpoints.save(
            self.at.step, self.tensors(), {"progress": asdict(self.at), "precision": self.precision}, pin=pin
        )

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """All that a run is made of, by group."""
        groups = {"weights": self.masters.tensors(), "optimizer": {}, "random": {"torch": torch.get_rng_state()}}
        for name, master in self.masters.parameters.items():
            for key, value in self.optimizer.state.get(master, {}).items():
                groups["optimizer"][f"{name}.{key}"] = value
        if self.moving is not None:
            groups["ema"] = self.moving.tensors
        return {group: named for group, named in groups.items() if named}

    def resume(self, journal_step: Callable[[str], None]) -> bool:
        """Takes up the newest good checkpoint; False where there is none."""
        saved = self.checkpoints.load()
        if saved is None:
            return False
        for fault in saved.damaged:
            journal_step(f"a damaged checkpoint was passed over: {fault}")
        self._restore(saved)
        self.checkpoints.forget_after(saved.step)
        self.snapshots.forget_after(saved.step)
        return True

    def _restore(self, saved: Saved) -> None:
        if saved.state["precision"] != self.precision:
            raise BundleError(
                f"{saved.folder} was trained in {saved.state['precision']}, this machine would go on in {self.precision}; "
                f"set train.precision {saved.state['precision']}, or train in another folder"
            )
        self.at = Progress(**saved.state["progress"])
        self.at.finished = ""
        self.masters.load(saved.tensors["weights"])
        if self.moving is not None:
            self.moving.tensors = {k: t.to(self.device) for k, t in saved.tensors["ema"].items()}
        stored = saved.tensors["optimizer"] if "optimizer" in saved.tensors else {}
        for name, master in self.masters.parameters.items():
            own = {k.removeprefix(f"{name}."): t for k, t in stored.items() if k.rpartition(".")[0] == name}
            if own:
                self.optimizer.state[master] = {k: t if k == "step" else t.to(master.device) for k, t in own.items()}
        torch.set_rng_state(saved.tensors["random"]["torch"])

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end the run after the step that is under way; a second one ends it at once."""

        def asked(number: int, frame: FrameType | None) -> None:
            if self.stop:
                raise KeyboardInterrupt
            self.stop = f"stopped by {signal.Signals(number).name}"

        before: dict[int, Any] = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                before[number] = signal.signal(number, asked)
            except ValueError:
                pass  # not the main thread: whoever called handles signals
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _cells(batch: Batch) -> int:
    """The target positions that were computed, padded ones too."""
    assert batch.target is not None
    return batch.rows * (batch.target.ids.shape[1] - 1)
