"""A run from its recipe to its bundle: prepare, train or go on, choose what to keep on the development set, write it.

FOLDER/recipe.yaml      the resolved recipe, and the commands and versions in run.json
FOLDER/log.jsonl        a line a report
FOLDER/checkpoints/     to go on from
FOLDER/report.html      the run as one page
FOLDER/config.json ...  the bundle: `qkv translate --model FOLDER`
"""

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qkv import __version__, config, runtime
from qkv.data.parallel import PreparedParallel, to_stderr
from qkv.errors import BundleError, ConfigError
from qkv.folder import make_folder, read_json, write_json, write_text
from qkv.lock import FolderLock
from qkv.models.base import parameters
from qkv.models.protocols import Steps
from qkv.pipeline.bundle import write_bundle
from qkv.pipeline.card import Card, Score
from qkv.pipeline.load import load
from qkv.train import report
from qkv.train.average import mean_of
from qkv.train.fit import check_fit
from qkv.train.journal import Journal
from qkv.train.loop import Trainer
from qkv.train.recipe import Recipe, differences

CACHE = Path(".cache/prepared")


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    finished: bool
    why: str
    step: int
    scores: Mapping[str, float]


def train(recipe: Recipe, folder: Path, *, quiet: bool = False, cache: Path = CACHE) -> Outcome:
    """Trains into a folder, or goes on with what is there; the bundle is written at the end."""
    recipe.check_end()
    check_fit(recipe)
    _check_same(recipe, folder)
    asks = recipe.train.patience or recipe.train.average or recipe.train.metric != "nll"
    if asks and recipe.data.options["dev"] is None:
        raise ConfigError("train asks for validations (patience, average or metric), but data.dev is not set; name one")
    torch.set_num_threads(runtime.threads())
    # Before the folder is taken, so that a mistake in the data leaves nothing behind.
    data = recipe.data.build().prepare(cache, None if quiet else to_stderr)
    with FolderLock(folder) as lock:
        _check_same(recipe, folder)
        _check_same_text(data, folder)
        trainer = Trainer(recipe, data, folder, lock)
        _write_run(recipe, folder, trainer)
        return _trained(trainer, folder, quiet)


def _trained(trainer: Trainer, folder: Path, quiet: bool) -> Outcome:
    settings = trainer.recipe.train
    notes: list[str] = []
    resumed = trainer.resume(notes.append)
    with Journal(
        folder, trainer.at.step, every=settings.report_seconds, tensorboard=settings.tensorboard, quiet=quiet
    ) as journal:
        for note in notes:
            journal.say(note)
        counts, plan = trainer.data.counts["train"], trainer.sampler.plan(trainer.at.epoch)
        journal.say(
            f"{trainer.recipe.model.name}, {parameters(trainer.model):,} parameters, {trainer.precision}, "
            f"{torch.get_num_threads()} threads; {counts['pairs']:,} pairs, {len(plan):,} batches an epoch, "
            f"padding {plan.padding:.1%}" + (f"; going on from step {trainer.at.step:,}" if resumed else "")
        )
        why = trainer.run(journal)
        if trainer.stop:
            journal.say(f"{why} at step {trainer.at.step:,}, all saved; the same command goes on from there")
            return Outcome(False, why, trainer.at.step, {})
        weights, scores, chosen = _chosen(trainer, journal)
        _write(trainer, folder, weights, scores, chosen)
        if trainer.recipe.train.report:
            _report(trainer, folder, journal)
        journal.say(f"ended: {why}; kept {chosen}; translate with: qkv translate --model {folder}")
        return Outcome(True, why, trainer.at.step, scores)


def _chosen(trainer: Trainer, journal: Journal) -> tuple[dict[str, Tensor], dict[str, float], str]:
    """The weights that do best on the development set: the best validated, or the mean of the last few."""
    at, saved = trainer.at, trainer.checkpoints
    if trainer.data.dev is None:
        return trainer.shown(), {}, "the last weights: no development set to choose on"
    group = "ema" if trainer.moving is not None else "weights"
    candidates = {f"the weights of step {at.best_step:,}, the best validated": lambda: saved.read(at.best_step, group)}
    if len(at.snapshots) > 1:
        name = f"the mean of the last {len(at.snapshots)} validations' weights"
        candidates[name] = lambda: mean_of(trainer.snapshots.read(step, "weights") for step in at.snapshots)
    best: tuple[dict[str, Tensor], dict[str, float], str] | None = None
    value: float | None = None
    for name, read in candidates.items():
        try:
            weights = read()
        except BundleError as error:  # a damaged checkpoint, or one of a future that was left again
            journal.say(f"passed over {name}: {error}")
            continue
        verdict = trainer.judged(weights)
        journal.write(step=at.step, candidate=name, dev=verdict.scores)
        journal.say(f"dev {verdict}  {name}")
        if best is None or verdict.beats(value):
            best, value = (weights, verdict.scores, name), verdict.value
    return best or (trainer.shown(), {}, "the last weights: none that were validated can be read")


def _report(trainer: Trainer, folder: Path, journal: Journal) -> None:
    """The page of the run; the model is written by now, so that nothing here can cost it."""
    measured = None
    if trainer.data.dev is not None and isinstance(trainer.model, Steps):
        journal.say("translating a part of the development set for the report")
        measured = report.measure(load(folder), *trainer.data.dev_texts())
    journal.say(f"the report is {report.write(folder, measured)}")


def _write(
    trainer: Trainer, folder: Path, weights: dict[str, Tensor], scores: Mapping[str, float], chosen: str
) -> None:
    data, recipe = trainer.data, trainer.recipe
    counts = data.counts["train"]
    card = Card(
        name=folder.name,
        source_language=data.data.source,
        target_language=data.data.target,
        training={
            "pairs": f"{counts['pairs']:,}",
            "steps": f"{trainer.at.step:,}",
            "minutes": f"{trainer.at.elapsed / 60:.1f}",
            "precision": trainer.precision,
            "weights": chosen,
        },
        scores=[Score("development set", name, value) for name, value in scores.items()],
    )
    model_weights = {name.removeprefix("model."): t.cpu() for name, t in weights.items() if name.startswith("model.")}
    write_bundle(
        folder,
        part=recipe.model,
        weights=model_weights,
        source=data.source,
        target=data.target,
        decoding=config.plain(recipe.decode),
        card=card,
        longest_source=data.data.max_length,
    )


def _check_same(recipe: Recipe, folder: Path) -> None:
    """A folder goes on with its own recipe only."""
    if not (folder / "run.json").is_file():
        return
    before = read_json(folder / "run.json").get("recipe")
    if odd := differences(before, config.plain(recipe)):
        raise ConfigError(
            f"{folder} holds a run with another recipe: {', '.join(odd[:4])} {'differ' if len(odd) > 1 else 'differs'}"
            "; give the same settings to go on, or another --out to begin anew"
        )


def _check_same_text(data: PreparedParallel, folder: Path) -> None:
    """A run goes on with its own text only, wherever that lies by now."""
    before = read_json(folder / "run.json").get("text") if (folder / "run.json").is_file() else None
    if before is not None and before != data.prepared.folder.name:
        raise ConfigError(
            f"{folder} holds a run on other text: what data.train or data.dev names has changed since it began; "
            "bring the old text back to go on, or give another --out to begin anew"
        )


def _write_run(recipe: Recipe, folder: Path, trainer: Trainer) -> None:
    make_folder(folder)
    write_text(folder / "recipe.yaml", config.dump(recipe))
    before = read_json(folder / "run.json") if (folder / "run.json").is_file() else {}
    sitting = {
        "command": sys.argv,
        "qkv": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }
    facts: dict[str, Any] = {
        "recipe": config.plain(recipe),
        "sittings": [*before.get("sittings", []), sitting],
        "parameters": parameters(trainer.model),
        "precision": trainer.precision,
        "prepared": trainer.data.counts,
        "text": trainer.data.prepared.folder.name,
    }
    write_json(folder / "run.json", facts)


def prepared(recipe: Recipe, cache: Path = CACHE) -> PreparedParallel:
    """Only the first stretch of the road: tokenizers and shards."""
    made: PreparedParallel = recipe.data.build().prepare(cache, to_stderr)
    return made
