"""An ensemble: several models that write one target together, by the mean of their probabilities.

It is a model to search like any other. Its hidden vector is its members', one behind the other, and its state holds
theirs; each member is given the same tokens.

Letters: R rows, D all members' widths together, V vocabulary.
"""

from collections.abc import Sequence
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.data.batch import Batch
from qkv.errors import ConfigError
from qkv.models.protocols import Steps
from qkv.nn.call import NOTHING, Extras, Want
from qkv.nn.state import Decoding


class Ensemble:
    """Members of one vocabulary, of any kind and width."""

    def __init__(self, members: Sequence[Steps]) -> None:
        if not members:
            raise ConfigError("an ensemble has 0 members; give it at least one model")
        sizes = sorted({member.vocabulary for member in members})
        if len(sizes) > 1:
            raise ConfigError(
                f"an ensemble's members have vocabularies of {' and '.join(map(str, sizes))} tokens; "
                "take models that were trained with one tokenizer"
            )
        self.members = list(members)
        self.vocabulary = sizes[0]
        self._widths: tuple[int, ...] = ()  # the members' own; known once they have taken a step

    def start(self, batch: Batch, capacity: int) -> Decoding:
        states = [member.start(batch, capacity) for member in self.members]
        return Decoding({str(i): state for i, state in enumerate(states)}, states[0].lengths.clone())

    def extend(
        self, ids: Int[Tensor, "R k"], state: Decoding, want: Want = Want()
    ) -> tuple[Float[Tensor, "R k D"], Extras]:
        """What member i says stands under its number."""
        hidden, extras = [], NOTHING
        for i, member in enumerate(self.members):
            own = state.at(str(i))
            assert isinstance(own, Decoding)
            h, said = member.extend(ids, own, want.at(str(i)))
            hidden.append(h)
            extras = extras | said.under(str(i))
        state.advance(ids.shape[1])
        widths = tuple(h.shape[-1] for h in hidden)
        assert self._widths in ((), widths), (self._widths, widths)
        self._widths = widths
        return torch.cat(hidden, dim=-1), extras

    def scores(
        self, hidden: Float[Tensor, "*rows D"], subset: Int[Tensor, "W"] | None = None
    ) -> Float[Tensor, "*rows V"]:
        each = zip(self.members, hidden.split(self._widths, dim=-1), strict=True)
        mean = torch.stack([member.scores(h, subset) for member, h in each]).logsumexp(0) - log(len(self.members))
        # Search relies on log-probabilities that never rise; rounding may lift a certain token above 0.
        return mean.clamp_(max=0)
