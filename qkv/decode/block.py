"""Sentences that are decoded together, a token a step: finished ones leave, waiting ones come in, none feels another.

A step scores the next token, lets the kind of search choose, writes the choice down, and feeds it to the model. What a
row remembers is moved with it: repeated once when a beam begins, reordered within its sentence at each step, and cut or
joined when sentences leave or come in.

Letters: U sentences, W lanes of each, R = U W rows of the model, D width, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.data.batch import Batch
from qkv.decode import constraints
from qkv.decode.hypothesis import Hypothesis
from qkv.decode.tape import Tape
from qkv.decode.task import Completion, Outcome, Prefixes, Sentence, Task, limits_of, prefixes_of
from qkv.errors import RunError

# One that is done costs its rows until it leaves; leaving copies what all the others remember. They leave together,
# when so many of a block are done.
LEAVING_SHARE = 1 / 8


class Block(ABC):
    """The road of every search; how the next tokens are chosen is the subclass's."""

    @torch.inference_mode()
    def __init__(
        self, task: Task, batch: Batch, numbers: Sequence[int], prefixes: Prefixes | None, copies: int, lanes: int
    ) -> None:
        """`copies` independent sentences for each row of the batch, each of `lanes` hypotheses."""
        self.task, self.lanes, self.clock = task, lanes, 0
        forced = prefixes_of(prefixes, batch.rows, task)
        limits = limits_of(batch, forced, task.settings)
        common = min(len(prefix) for prefix in forced)
        device = batch.samples.device
        given = torch.tensor([[task.marks.bos, *prefix[:common]] for prefix in forced], device=device)
        self.state = task.model.start(batch, _room(batch, common, max(limits)))
        hidden, _ = task.model.extend(given, self.state)
        row_of = torch.arange(batch.rows, device=device).repeat_interleave(copies)
        if copies * lanes > 1:
            self.state.select(row_of.repeat_interleave(lanes))
        self.hidden: Float[Tensor, "R D"] = hidden[:, -1].index_select(0, row_of.repeat_interleave(lanes))
        self.sentences = [
            Sentence(number, draw, forced[row], limits[row], -common)
            for row, number in enumerate(numbers)
            for draw in range(copies)
        ]
        draws = torch.arange(copies, device=device).repeat(batch.rows)
        self.tape = Tape.blank(batch.samples[row_of], draws, lanes, max(limits), given[row_of, 1:])
        self._look_ahead()

    @property
    def rows(self) -> int:
        """How many rows the model computes at each step."""
        return len(self.sentences) * self.lanes

    @torch.inference_mode()
    def step(self) -> list[Outcome]:
        """A token more for every sentence; those that are done with it. The model's scores are written on."""
        scores = self.task.model.scores(self.hidden).float().unflatten(0, (-1, self.lanes))
        self._constrain(scores)
        parents, ids, outcomes = self._choose(scores)
        self.clock += 1
        self._go_on(parents, ids)
        return outcomes

    @torch.inference_mode()
    def join(self, other: "Block") -> None:
        """The sentences of another block of the same task come in behind these."""
        assert self.sentences and other.sentences, "a block whose sentences are done is replaced, not joined"
        later = self.clock - other.clock
        self.state.insert(other.state)
        self.hidden = torch.cat([self.hidden, other.hidden])
        self.tape.join(other.tape, later)
        for sentence in other.sentences:
            sentence.birth += later
        self.sentences += other.sentences
        self._look_ahead()

    def drop(self, numbers: set[int]) -> None:
        """Nobody waits for these any more: they have no outcome, and leave with the others that are done."""
        for sentence in self.sentences:
            sentence.done = sentence.done or sentence.number in numbers

    @abstractmethod
    def _choose(
        self, scores: Float[Tensor, "U W V"]
    ) -> tuple[Int[Tensor, "U W"] | None, Int[Tensor, "U W"], list[Outcome]]:
        """Which lane each lane goes on from (None: itself) and with which token, written on the tape; who is done."""

    @property
    def _longest(self) -> int:
        """The number of tokens of the longest sentence."""
        return self.clock - self._first_birth

    def _look_ahead(self) -> None:
        """When single sentences want a look of the host's again: until then it gives them none."""
        self._first_birth = min(s.birth for s in self.sentences)
        self._next_due = min(s.due for s in self.sentences)
        self._forced_until = max(s.forced_until for s in self.sentences)

    def _constrain(self, scores: Float[Tensor, "U W V"]) -> None:
        settings, marks, clock = self.task.settings, self.task.marks, self.clock
        constraints.forbid(scores, marks.unwritable)
        if clock < self._forced_until + settings.min_new_tokens:
            early = [u for u, s in enumerate(self.sentences) if clock < s.forced_until + settings.min_new_tokens]
            constraints.hold_back(scores, early, marks.eos)
        if settings.no_repeat_ngram_size:
            lengths = self.tape.lengths(clock)
            constraints.block_repeats(scores, self.tape.ids, lengths, self._longest, settings.no_repeat_ngram_size)
        if clock < self._forced_until:
            forced = [u for u, s in enumerate(self.sentences) if clock < s.forced_until]
            ids = [self.sentences[u].prefix[clock - self.sentences[u].birth] for u in forced]
            constraints.force(scores, forced, ids)

    def _go_on(self, parents: Int[Tensor, "U W"] | None, ids: Int[Tensor, "U W"]) -> None:
        """Lets those leave that are done, moves what the others remember, and feeds them their new token."""
        staying = [u for u, s in enumerate(self.sentences) if not s.done]
        if not staying:
            self.sentences = []
            return
        done = len(self.sentences) - len(staying)
        leaving = done >= LEAVING_SHARE * len(self.sentences)
        # Nor may one that is done outgrow its limit, which may be the model's own.
        leaving = leaving or (done > 0 and any(s.done and s.due <= self.clock for s in self.sentences))
        if leaving or parents is not None:
            lanes = torch.arange(self.lanes, device=ids.device)[None] if parents is None else parents
            rows = torch.arange(len(self.sentences), device=ids.device)[:, None] * self.lanes + lanes
            if leaving:
                stay = torch.tensor(staying, device=ids.device)
                self.state.select(rows[stay].flatten())
                self.tape.select(stay)
                self.sentences = [self.sentences[u] for u in staying]
                ids = ids[stay]
                self._look_ahead()
            else:
                self.state.reorder(rows.flatten(), group=self.lanes)
        self.hidden = self.task.model.extend(ids.reshape(-1, 1), self.state)[0][:, -1]

    def _completed(self, completions: list[Completion]) -> list[Hypothesis]:
        """The hypotheses themselves; to be called before the step's tokens are written."""
        if not completions:
            return []
        ids, steps = self.tape.read([c.sentence for c in completions], [c.lane for c in completions], self._longest)
        return [self._hypothesis(*one) for one in zip(completions, ids, steps, strict=True)]

    def _hypothesis(self, c: Completion, ids: list[int], steps: list[float]) -> Hypothesis:
        if c.log_probability != c.log_probability:
            raise damage()
        sentence = self.sentences[c.sentence]
        written, forced = self.clock - sentence.birth, len(sentence.prefix)
        ids, steps = ids[:written], steps[forced:written]
        finished = c.last is not None and c.last[0] == self.task.marks.eos
        if c.last is not None:
            ids += [] if finished else [c.last[0]]
            steps += [c.last[1]]
        score = self.task.score(c.log_probability, len(steps))
        return Hypothesis(tuple(ids), score, c.log_probability, tuple(steps), finished, forced)


def _room(batch: Batch, common: int, limit: int) -> int:
    """Room for a target as long as its source: all of it is copied at each reordering, and it grows when it is full."""
    return 1 + (limit if batch.source is None else min(limit, common + batch.source.ids.shape[1]))


def damage() -> RunError:
    return RunError(
        "the model's log-probabilities are not numbers (nan); its weights are damaged or they overflow: "
        "verify the model, or run it in fp32"
    )
