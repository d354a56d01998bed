"""The reference decoder: the same definitions, written to be read. One sentence, no cache, lists of numbers.

A hypothesis is fed whole, from BOS, into a fresh state at every step. Besides the targets it gives its margin: the
smallest lead by which any of its decisions was taken, in log-probability, in score at the end, or in share of the mass
where a token is drawn (top_k and top_p also order tokens, which it does not judge). Programs that differ in rounding
alone must agree wherever that margin is larger.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import pairwise
from math import inf

import torch

from qkv.data.batch import Batch
from qkv.decode.hypothesis import Hypothesis
from qkv.decode.sample import kept, uniform
from qkv.decode.task import Prefixes, Task, limits_of, prefixes_of


@dataclass
class Margin:
    """The smallest lead so far."""

    smallest: float = inf

    def lead(self, winner: float, loser: float) -> None:
        if loser > -inf:
            self.smallest = min(self.smallest, abs(winner - loser))


@dataclass(frozen=True)
class Path:
    """A hypothesis on its way."""

    ids: tuple[int, ...]
    steps: tuple[float, ...] = ()  # of the new tokens

    @property
    def total(self) -> float:
        return sum(self.steps)


@dataclass
class Reference:
    """One sentence: a batch of one row."""

    task: Task
    batch: Batch
    prefix: tuple[int, ...]
    limit: int
    stop_early: bool = True  # false: go to the limit, to prove that stopping loses nothing
    margin: Margin = field(default_factory=Margin)

    def __post_init__(self) -> None:
        self.begun = self.task.model.start(self.batch, self.limit + 1)

    def decode(self) -> list[Hypothesis]:
        settings = self.task.settings
        if settings.beams > 1:
            return self._beam()
        return [self._single(draw) for draw in range(settings.draws)]

    def _next(self, path: Path) -> list[float]:
        """The log-probability of each next token; minus infinity where it may not come."""
        task, settings, marks = self.task, self.task.settings, self.task.marks
        fed = torch.tensor([[marks.bos, *path.ids]], device=self.batch.samples.device)
        hidden, _ = task.model.extend(fed, deepcopy(self.begun))
        scores: list[float] = task.model.scores(hidden[:, -1])[0].float().tolist()
        for i in marks.unwritable:
            scores[i] = -inf
        if len(path.steps) < settings.min_new_tokens:
            scores[marks.eos] = -inf
        n, ids = settings.no_repeat_ngram_size, path.ids
        for start in range(len(ids) - n + 1) if n else ():
            if ids[start : start + n - 1] == ids[len(ids) - n + 1 :]:
                scores[ids[start + n - 1]] = -inf
        return scores

    def _single(self, draw: int) -> Hypothesis:
        path = Path(self.prefix)
        while len(path.ids) < self.limit:
            scores = self._next(path)
            token = self._drawn(scores, path, draw) if self.task.settings.do_sample else self._likeliest(scores)
            if scores[token] == -inf:
                break
            steps = (*path.steps, scores[token])
            if token == self.task.marks.eos:
                return self._hypothesis(Path(path.ids, steps), True)
            path = Path((*path.ids, token), steps)
        return self._hypothesis(path, False)

    def _likeliest(self, scores: list[float]) -> int:
        first, second = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:2]
        self.margin.lead(scores[first], scores[second])
        return first

    def _drawn(self, scores: list[float], path: Path, draw: int) -> int:
        settings, position = self.task.settings, torch.tensor([len(path.ids)])
        number = float(
            uniform(settings.seed, settings.draws, self.batch.samples[:1].cpu(), torch.tensor([draw]), position)
        )
        ids, shares = kept(torch.tensor([scores]), settings)
        mass, number = 0.0, number * float(shares.sum())
        for place, share in enumerate(shares[0].tolist()):
            if share > 0:
                self.margin.lead(number, mass)
                mass += share
                if number < mass:
                    self.margin.lead(number, mass)
                    return place if ids is None else int(ids[0, place])
        return 0  # nothing may be drawn; its score says so

    def _beam(self) -> list[Hypothesis]:
        settings, eos = self.task.settings, self.task.marks.eos
        width, wanted = settings.beams, settings.num_return_sequences
        alive, ended, cut = [Path(self.prefix)], [], []
        while alive:
            every = sorted((path for parent in alive for path in self._children(parent)), key=lambda p: -p.total)
            self._judge_ends(every)
            ended += [self._hypothesis(Path(p.ids[:-1], p.steps), True) for p in every[:width] if p.ids[-1] == eos]
            onward = [p for p in every if p.ids[-1] != eos]
            if len(onward) > width:
                self.margin.lead(onward[width - 1].total, onward[width].total)
            if not every and not ended:
                cut = alive
            alive = onward[:width]
            if alive and len(alive[0].ids) == self.limit:
                cut, alive = alive, []
            if self.stop_early and alive and self._may_stop(alive[0], ended):
                break
        ended.sort(key=lambda h: -h.score)
        for better, worse in pairwise(ended[: wanted + 1]):
            self.margin.lead(better.score, worse.score)
        return [*ended, *(self._hypothesis(p, False) for p in cut)][:wanted]

    def _children(self, parent: Path) -> list[Path]:
        """The continuations of a path that can matter: no step looks below the first 2 W + 1 of all."""
        scores = self._next(parent)
        best = nlargest(2 * self.task.settings.beams + 1, range(len(scores)), key=scores.__getitem__)
        return [Path((*parent.ids, i), (*parent.steps, scores[i])) for i in best if scores[i] > -inf]

    def _judge_ends(self, every: list[Path]) -> None:
        """By how much each end stands among the first W, or fails to."""
        width = self.task.settings.beams
        for rank, path in enumerate(every):
            if path.ids[-1] == self.task.marks.eos and len(every) > width:
                self.margin.lead(path.total, every[width].total if rank < width else every[width - 1].total)

    def _may_stop(self, best: Path, ended: list[Hypothesis]) -> bool:
        settings = self.task.settings
        if settings.early_stopping:
            return len(ended) >= settings.beams
        if len(ended) < settings.num_return_sequences:
            return False
        worst = sorted((h.score for h in ended), reverse=True)[settings.num_return_sequences - 1]
        bound = self.task.bound(best.total, len(best.steps), self.limit - len(self.prefix))
        if bound <= worst:
            self.margin.lead(worst, bound)
        return bound <= worst

    def _hypothesis(self, path: Path, finished: bool) -> Hypothesis:
        score = self.task.score(path.total, len(path.steps))
        return Hypothesis(path.ids, score, path.total, path.steps, finished, len(self.prefix))


def reference(
    task: Task, batch: Batch, prefixes: Prefixes | None = None, stop_early: bool = True
) -> list[tuple[list[Hypothesis], float]]:
    """For each row its hypotheses and the margin of the decisions that led to them."""
    forced = prefixes_of(prefixes, batch.rows, task)
    limits = limits_of(batch, forced, task.settings)
    results = []
    for row, prefix, limit in zip(batch.divided(batch.rows), forced, limits, strict=True):
        with torch.inference_mode():
            one = Reference(task, row, prefix, limit, stop_early)
            results.append((one.decode(), one.margin.smallest))
    return results
