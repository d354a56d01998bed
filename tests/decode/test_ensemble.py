"""Several models as one."""

import pytest
import torch

from qkv.decode.compare import compare
from qkv.decode.ensemble import Ensemble
from qkv.decode.search import Waiting, stream
from qkv.decode.settings import SearchSettings
from qkv.errors import ConfigError
from qkv.models.protocols import Steps
from qkv.nn.call import Want
from tests.decode.toys import BOS, MARKS, Recurrent, batch_of, random_table, searched


def test_scores_are_the_log_of_the_mean_probability() -> None:
    a, b = Recurrent(seed=1), Recurrent(seed=2, width=10)
    both, batch = Ensemble([a, b]), batch_of([4, 6])
    ids = torch.full((2, 3), 5)
    hidden, _ = both.extend(ids, both.start(batch, 9), Want())
    assert hidden.shape == (2, 3, 28)
    mean = sum(m.scores(m.extend(ids, m.start(batch, 9))[0]).exp() for m in (a, b)) / 2
    assert torch.allclose(both.scores(hidden).exp(), mean, atol=1e-6)  # type: ignore[arg-type]
    subset = torch.tensor([3, 7])
    assert both.scores(hidden[:, -1], subset).shape == (2, 2)
    assert isinstance(both, Steps)


def test_of_one_or_of_twins_it_is_the_model() -> None:
    model, batch = Recurrent(seed=1, ending=2.0), batch_of([4, 6, 3])
    alone = searched(model, batch, max_new_tokens=8)
    for members in ([model], [model, model, model]):
        together = searched(Ensemble(members), batch, max_new_tokens=8)
        assert [hs[0].ids for hs in together] == [hs[0].ids for hs in alone]
        assert [hs[0].score for hs in together] == pytest.approx([hs[0].score for hs in alone], abs=1e-5)


@pytest.mark.parametrize("settings", [{"num_beams": 1}, {"num_return_sequences": 2}])
def test_members_of_different_kinds_search_as_the_reference_does(settings: dict[str, object]) -> None:
    model = Ensemble([Recurrent(seed=1, ending=2.0), random_table(3, words=8, choices=8), Recurrent(seed=2, width=10)])
    given = SearchSettings(max_new_tokens=8, **settings)  # type: ignore[arg-type]
    agreement = compare(model, batch_of([4, 6, 3, 5]), given, prefix=[[5], [], [6, 7, 8], []], **MARKS)
    assert agreement.different == 0 and agreement.equal >= 3


def test_its_sentences_come_in_midway_too() -> None:
    both, lengths = Ensemble([Recurrent(seed=1, ending=2.0), Recurrent(seed=2, width=10)]), [4, 6, 3, 5]
    waiting = [Waiting(batch_of([n], first=i)) for i, n in enumerate(lengths)]
    streamed = stream(both, waiting, SearchSettings(num_beams=2), rows=4, **MARKS)
    assert [h.ids for (h,) in streamed] == [h.ids for (h,) in searched(both, batch_of(lengths), num_beams=2)]


def test_a_certain_token_never_scores_above_zero() -> None:
    table = random_table(0, words=8, choices=1)
    table.table[BOS] = torch.full((12,), -torch.inf)
    table.table[BOS, 5] = 0.0
    both = Ensemble([table] * 3)
    hidden, _ = both.extend(torch.tensor([[BOS]]), both.start(batch_of([3]), 4))
    assert float(both.scores(hidden).max()) <= 0


def test_members_must_share_a_vocabulary() -> None:
    with pytest.raises(ConfigError, match="12 and 20 tokens"):
        Ensemble([Recurrent(vocabulary=20), Recurrent(vocabulary=12)])
    with pytest.raises(ConfigError, match="0 members"):
        Ensemble([])
