"""Beam search: the best few hypotheses of each sentence go on together, and the best of those that ended are kept.

At each step the 2 W best continuations of a sentence's W lanes are ranked by log-probability. Those that end in EOS and
stand among the first W are finished; the first W others live on. Finished ones never crowd out live ones, so a search
that stops early, once no live one can still beat the worst one kept (qkv.decode.penalties), finds what a search to the
limit finds. At a sentence's limit what is alive is cut; cut ones stand behind finished ones, whatever their scores.

Letters: U sentences, W lanes, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from qkv.data.batch import Batch
from qkv.decode.block import Block, damage
from qkv.decode.candidates import top
from qkv.decode.task import Completion, Outcome, Prefixes, Sentence, Task

Facts = NDArray[np.float32]


class Beam(Block):
    """Each sentence has `num_beams` lanes, best first."""

    def __init__(self, task: Task, batch: Batch, numbers: Sequence[int], prefixes: Prefixes | None = None) -> None:
        super().__init__(task, batch, numbers, prefixes, copies=1, lanes=task.settings.beams)

    def _choose(self, scores: Float[Tensor, "U W V"]) -> tuple[Int[Tensor, "U W"], Int[Tensor, "U W"], list[Outcome]]:
        lanes, vocabulary, tape = self.lanes, scores.shape[2], self.tape
        values, parents, ids = top(scores, tape.live, 2 * lanes)
        steps = scores.flatten(1).gather(1, parents * vocabulary + ids)
        ends = ids == self.task.marks.eos
        ranks = torch.arange(2 * lanes, device=ids.device)
        onward = (ranks + 2 * lanes * ends).topk(lanes, dim=1, largest=False).indices
        live = values.gather(1, onward)
        # The one transfer of a step: all that the host decides by.
        first = (t[:, :lanes].to(values.dtype) for t in (values, parents, steps, ends))
        facts = torch.stack([*first, live]).cpu().numpy()
        self._check(facts)
        self._keep(*facts[:4])
        parents, ids, steps = (t.gather(1, onward) for t in (parents, ids, steps))
        outcomes = self._settle(facts[4], parents, ids, steps)
        tape.live = live
        tape.write(self.clock, self._longest, parents, ids, steps)
        return parents, ids, outcomes

    def _check(self, facts: Facts) -> None:
        damaged = np.flatnonzero(np.isnan(facts).any(axis=(0, 2))).tolist()
        if any(not self.sentences[u].done for u in damaged):
            raise damage()

    def _keep(self, values: Facts, parents: Facts, steps: Facts, ends: Facts) -> None:
        """Hypotheses that end now are kept while they are among the best; of equals the earlier one stays."""
        most, eos = self.task.settings.num_return_sequences, self.task.marks.eos
        completions = []
        for u, rank in np.argwhere((ends > 0) & (values > -np.inf)).tolist():
            sentence, value = self.sentences[u], float(values[u, rank])
            if sentence.done:
                continue
            sentence.ended += 1
            score = self.task.score(value, self.clock + 1 - sentence.forced_until)
            if len(sentence.kept) < most or score > sentence.kept[-1].score:
                completions.append(Completion(u, int(parents[u, rank]), value, (eos, float(steps[u, rank]))))
        for completion, hypothesis in zip(completions, self._completed(completions), strict=True):
            sentence = self.sentences[completion.sentence]
            sentence.kept = sorted([*sentence.kept, hypothesis], key=lambda h: -h.score)[:most]

    def _settle(
        self, live: Facts, parents: Int[Tensor, "U W"], ids: Int[Tensor, "U W"], steps: Float[Tensor, "U W"]
    ) -> list[Outcome]:
        """The sentences that are done with this step."""
        most = self.task.settings.num_return_sequences
        done, cut = [], []
        for u, sentence in enumerate(self.sentences):
            if sentence.done:
                continue
            if live[u, 0] == -np.inf:  # nothing more is allowed: what was alive is all there is, unless something ended
                totals = [] if sentence.kept else self.tape.live[u].tolist()
                cut += [Completion(u, lane, t, None) for lane, t in enumerate(totals[:most]) if t > -np.inf]
            elif self.clock + 1 >= sentence.due:
                news = zip(parents[u].tolist(), live[u].tolist(), ids[u].tolist(), steps[u].tolist(), strict=True)
                missing = most - len(sentence.kept)
                cut += [Completion(u, lane, t, (i, s)) for lane, t, i, s in list(news)[:missing] if t > -np.inf]
            elif not self._settled(sentence, float(live[u, 0])):
                continue
            sentence.done = True
            done.append(sentence)
        for completion, hypothesis in zip(cut, self._completed(cut), strict=True):
            self.sentences[completion.sentence].kept.append(hypothesis)
        return [Outcome(s.number, s.draw, s.kept) for s in done]

    def _settled(self, sentence: Sentence, best: float) -> bool:
        """Nothing that is alive matters any more."""
        settings = self.task.settings
        if settings.early_stopping:
            return sentence.ended >= self.lanes
        if len(sentence.kept) < settings.num_return_sequences:
            return False
        tokens, limit = self.clock + 1 - sentence.forced_until, sentence.limit - len(sentence.prefix)
        return self.task.bound(best, tokens, limit) <= sentence.kept[-1].score
