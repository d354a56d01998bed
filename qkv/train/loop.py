"""The one training loop: batch, losses, gradient, step; validate, save, stop; go on exactly where it was stopped.

Nothing in a step looks back from the device to the host: losses stay tensors until a line of the log is due.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
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
from qkv.errors import BundleError, RunError
from qkv.lock import FolderLock
from qkv.models.base import Sizes, build
from qkv.models.protocols import Steps
from qkv.objectives.base import Objective
from qkv.random import Noise
from qkv.tracing import region
from qkv.train.average import Moving
from qkv.train.checkpoint import Checkpoints, Saved
from qkv.train.fit import check_fit, enough_memory, width_of
from qkv.train.guard import Guard
from qkv.train.journal import Journal
from qkv.train.precision import Masters
from qkv.train.recipe import Recipe
from qkv.train.validate import Verdict, translator_of, validate

LOOK = 16  # steps between the host's looks at what the guard has done, where a look would wait for the device


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
    slowed: float = 1.0  # the learning rate's factor, after the guard's returns
    returns: int = 0  # how often the guard has gone back to a checkpoint
    finished: str = ""  # why it ended, once it has


class Trainer:
    """A run in a folder: built from its recipe, or taken up from its last checkpoint."""

    def __init__(self, recipe: Recipe, data: PreparedParallel, folder: Path, lock: FolderLock, /) -> None:
        self.recipe, self.data, self.folder, settings = recipe, data, folder, recipe.train
        self.device = runtime.device()
        self.precision = runtime.pick_precision() if settings.precision == "auto" else settings.precision
        check_fit(recipe, self._sizes)
        torch.manual_seed(settings.seed)  # for parts whose random numbers are not keyed
        self.objective = self._first().to(self.device)
        self.model = self.objective.model
        self.masters = Masters(self.objective, self.precision)
        self.optimizer = recipe.optim.build(self.masters.parameters.values())
        self.schedule = recipe.schedule.build(width_of(recipe), settings.max_steps)
        self.moving = Moving(settings.ema, self.masters.tensors()) if settings.ema else None
        self.sampler = data.sampler(max_tokens=settings.max_tokens, seed=settings.seed)
        if data.dev is not None:
            data.held_out(max_tokens=settings.max_tokens)  # a sentence too long for a batch is told now, not in an hour
        self.checkpoints = Checkpoints(folder / "checkpoints", keep=settings.keep, lock=lock)
        # One more than are averaged: a kill between snapshot and checkpoint goes back to the one before.
        self.snapshots = Checkpoints(folder / "snapshots", keep=settings.average + 2, lock=lock)
        self.guard = Guard(recipe.guard, self.device)
        self.at = Progress()
        self.stop = ""
        self._batches = (-1, 0)  # an epoch, and how many batches it has

    @property
    def _sizes(self) -> Sizes:
        return Sizes(self.data.source.size, self.data.target.size)

    def _first(self) -> Objective:
        """The objective and its model as they are before the first step."""
        return self.recipe.objective.build(build(self.recipe.model, self._sizes, self.recipe.train.seed))

    # ------------------------------------------------------------------------------------------------- one step

    def step(self, batch: Batch) -> dict[str, Tensor]:
        """One update from one batch, in its parts; the losses of the whole batch."""
        settings, number = self.recipe.train, self.at.step + 1
        sums: dict[str, Tensor] = {}
        for part in batch.divided(settings.parts):
            there = part.to(self.device)
            losses = self.objective(there, batch.counts, Noise(settings.seed, number, there.samples))
            losses["loss"].backward()
            with region("optimizer"):
                self.masters.collect()
            for name, value in losses.items():
                sums[name] = sums[name] + value.detach() if name in sums else value.detach()
        with region("optimizer"):
            self._update(sums["loss"], number)
        return sums

    def _update(self, loss: Tensor, number: int) -> None:
        """The gradients that were collected, into the weights."""
        learned = self.masters.parameters.values()
        norm = torch.nn.utils.get_total_norm([p.grad for p in learned if p.grad is not None])
        if self.recipe.train.clip:
            torch.nn.utils.clip_grads_with_norm_(learned, self.recipe.train.clip, norm)
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.rate(number) * self.at.slowed
        # By this name PyTorch's fused kernels know a step to leave out.
        self.optimizer.found_inf = self.guard.judge(loss, norm)  # type: ignore[attr-defined]
        self.optimizer.step()
        self.masters.clear()
        self.masters.spread()
        if self.moving is not None:
            self.moving.update(self.masters.tensors(), number)

    # ------------------------------------------------------------------------------------------------- the run

    def run(self, journal: Journal) -> str:
        """Trains until the recipe's end, patience's end or a signal; says which."""
        at = self.at
        self.objective.train()
        began = time.monotonic() - at.elapsed
        with self._signals():
            self._train(journal, began)
            at.elapsed = time.monotonic() - began
            at.finished = "" if self.stop else self._ended()
            if not self.stop and self.data.dev is not None and at.validated != at.step:
                self._validate(journal)
                self.save("best" if at.best_step == at.step else None)
            else:
                self.save()
        return self.stop or at.finished

    def _train(self, journal: Journal, began: float) -> None:
        settings, at = self.recipe.train, self.at
        with self.data.feed(self.sampler, Position(at.epoch, at.batch), settings.seed) as feed:
            while not (self.stop or self._ended()):
                batch = next(feed)
                with enough_memory(at.step + 1):
                    losses = self.step(batch)
                assert feed.position is not None
                at.step, at.epoch, at.batch = at.step + 1, feed.position.epoch, feed.position.batch
                at.elapsed = time.monotonic() - began
                skipped = self.optimizer.found_inf  # type: ignore[attr-defined]
                journal.step(losses, batch.counts["target_tokens"], _cells(batch), skipped)
                if self.device.type == "cpu" or at.step % LOOK == 0:
                    self._look(journal)
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
                    self._report(journal, feed)  # which refuses to go on from a loss that is no number
                    self.save()
            self._report(journal, feed)

    def _look(self, journal: Journal) -> None:
        """What the guard has done, told; and when it has done nothing else for a while, back to before that."""
        at, settings = self.at, self.recipe.guard
        seen = self.guard.look()
        if not seen.skipped:
            return
        journal.write(step=at.step, guard="skipped", steps=seen.skipped, streak=seen.streak, reason=seen.reason)
        if seen.streak == 1 or seen.streak % 10 == 0:
            journal.say(f"step {at.step:,} skipped: {seen.reason}" + (f"; {seen.streak} in a row" * (seen.streak > 1)))
        if seen.streak < settings.patience:
            return
        if at.returns >= settings.returns:
            raise RunError(
                f"step {at.step:,}: {seen.reason}, {seen.streak} steps in a row, after {at.returns} returns to earlier "
                "weights: the run has diverged; its last checkpoint stands; lower the learning rate and train again"
            )
        back = self._return_to(at.step - seen.streak)
        at.returns += 1
        at.slowed *= settings.slower
        self.guard.forgive()
        journal.write(step=at.step, guard="returned", to=back, slowed=at.slowed, reason=seen.reason)
        journal.say(f"step {at.step:,}: back to the weights of step {back:,}, and on at {at.slowed:g} times the rate")

    def _return_to(self, step: int) -> int:
        """The weights and moments of the newest good checkpoint up to `step`, or the first ones; the data go on."""
        for candidate in reversed([known for known in self.checkpoints.steps() if known <= step]):
            with suppress(BundleError):
                saved = self.checkpoints.load(candidate)
                assert saved is not None
                self._take(saved)
                return candidate
        self.masters.load({name: p.detach() for name, p in self._first().named_parameters()})
        self.optimizer.state.clear()
        if self.moving is not None:
            self.moving = Moving(self.recipe.train.ema, self.masters.tensors())
        return 0

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
        if not self.at.batch:
            return 0.0
        if self._batches[0] != self.at.epoch:
            self._batches = self.at.epoch, len(self.sampler.plan(self.at.epoch))
        return self.at.batch / self._batches[1]

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
            step=at.step,
            epoch=at.epoch,
            dev=verdict.scores,
            seconds=round(verdict.seconds, 2),
            best_step=at.best_step,
            samples=self._samples(),
        )
        standing = "best so far" if better else "" if at.best is None else f"best {at.best:.4f} at {at.best_step:,}"
        journal.say(f"step {at.step:,}  dev {verdict}  {standing}")

    def _samples(self) -> list[list[str]]:
        """A few development sentences, as they are translated by now, greedily, and their references."""
        count = self.recipe.train.samples
        if not count or not isinstance(self.model, Steps):
            return []
        sources, references = (texts[:count] for texts in self.data.dev_texts(count))
        self.objective.eval()
        greedy = replace(self.recipe.decode, num_beams=1, num_return_sequences=1, do_sample=False)
        said = translator_of(self.objective, self.data, greedy, self.device).translate(sources)
        self.objective.train()
        return [list(row) for row in zip(sources, said, references, strict=True)]

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
        """A checkpoint of everything; weights that are no numbers never take the place of good ones."""
        norms = torch._foreach_norm(list(self.masters.tensors().values()))
        if not all(torch.isfinite(torch.stack(norms)).tolist()):
            raise RunError(
                f"the weights are no longer finite at step {self.at.step:,}: the run has diverged; its last checkpoint "
                "stands; lower the learning rate and train again"
            )
        self.checkpoints.save(
            self.at.step, self.tensors(), {"progress": asdict(self.at), "precision": self.precision}, pin=pin
        )

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """All that a run is made of, by group."""
        groups = {"weights": self.masters.tensors(), "optimizer": {}, "random": {"torch": torch.get_rng_state()}}
        groups["guard"] = {"state": self.guard.state}
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
            self.snapshots.forget_after(-1)  # of a run that was killed before its first checkpoint
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
                f"{saved.folder} was trained in {saved.state['precision']}, this machine would go on in "
                f"{self.precision}; set train.precision {saved.state['precision']}, or train in another folder"
            )
        self.at = Progress(**saved.state["progress"])
        self.at.finished = ""
        self.guard.load(saved.tensors["guard"]["state"])
        self._take(saved)
        torch.set_rng_state(saved.tensors["random"]["torch"])

    def _take(self, saved: Saved) -> None:
        """Weights, their average and the optimizer's moments."""
        self.masters.load(saved.tensors["weights"])
        if self.moving is not None:
            self.moving.tensors = {k: t.to(self.device) for k, t in saved.tensors["ema"].items()}
        stored = saved.tensors.get("optimizer", {})
        for name, master in self.masters.parameters.items():
            own = {k.removeprefix(f"{name}."): t for k, t in stored.items() if k.rpartition(".")[0] == name}
            if own:
                self.optimizer.state[master] = {k: t.to(master.device) for k, t in own.items()}  # fused: the step too

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end the run after the step that is under way; a second one ends it at once."""

        def asked(number: int, frame: FrameType | None) -> None:
            if self.stop:
                raise KeyboardInterrupt
            self.stop = f"stopped by {signal.Signals(number).name}"

        before: dict[int, Any] = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(ValueError):  # not the main thread: whoever called handles signals
                before[int(number)] = signal.signal(number, asked)
        try:
            yield
        finally:
            for given, handler in before.items():
                signal.signal(given, handler)


def _cells(batch: Batch) -> int:
    """The target positions that were computed, padded ones too."""
    assert batch.target is not None
    return batch.rows * (batch.target.ids.shape[1] - 1)
