"""One hypothesis for each sentence: the likeliest token at each step (greedy), or one that is drawn.

Letters: U sentences, V vocabulary.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.data.batch import Batch
from qkv.decode.block import Block
from qkv.decode.candidates import top
from qkv.decode.sample import drawn, uniform
from qkv.decode.task import Completion, Outcome, Prefixes, Task

ENDED, STUCK, DAMAGED = 1, 2, 3


class Single(Block):
    """Each lane is a sentence; several draws of one sentence go their own ways."""

    def __init__(self, task: Task, batch: Batch, numbers: Sequence[int], prefixes: Prefixes | None = None) -> None:
        super().__init__(task, batch, numbers, prefixes, copies=task.settings.draws, lanes=1)

    def _choose(self, scores: Float[Tensor, "U 1 V"]) -> tuple[None, Int[Tensor, "U 1"], list[Outcome]]:
        tape = self.tape
        ids = self._drawn(scores[:, 0])[:, None] if self.task.settings.do_sample else _likeliest(scores)
        steps = scores[:, 0].gather(1, ids)
        told = torch.where(ids == self.task.marks.eos, ENDED, 0).masked_fill(steps == -torch.inf, STUCK)
        news = told.masked_fill(steps.isnan(), DAMAGED)[:, 0].tolist()
        outcomes: list[Outcome] = []
        if any(news) or self.clock + 1 >= self._next_due:
            outcomes = self._outcomes(news, ids[:, 0], steps[:, 0])
        tape.live = tape.live + steps
        tape.write(self.clock, self._longest, None, ids, steps)
        return None, ids, outcomes

    def _drawn(self, scores: Float[Tensor, "U V"]) -> Int[Tensor, "U"]:
        settings, tape = self.task.settings, self.tape
        numbers = uniform(settings.seed, settings.draws, tape.samples, tape.draws, tape.lengths(self.clock))
        return drawn(scores, numbers, settings)

    def _outcomes(self, news: list[int], ids: Int[Tensor, "U"], steps: Float[Tensor, "U"]) -> list[Outcome]:
        at = [u for u, s in enumerate(self.sentences) if not s.done and (news[u] or self.clock + 1 >= s.due)]
        past, last, token = (t[at].tolist() for t in (self.tape.live[:, 0], steps, ids))
        completions = [
            Completion(u, 0, past[i], None)
            if news[u] == STUCK
            else Completion(u, 0, past[i] + last[i], (token[i], last[i]))
            for i, u in enumerate(at)
        ]
        outcomes = []
        for u, hypothesis in zip(at, self._completed(completions), strict=True):
            sentence = self.sentences[u]
            sentence.done = True
            outcomes.append(Outcome(sentence.number, sentence.draw, [hypothesis]))
        return outcomes


def _likeliest(scores: Float[Tensor, "U 1 V"]) -> Int[Tensor, "U 1"]:
    return top(scores, scores.new_zeros(scores.shape[:2]), 1)[2]
