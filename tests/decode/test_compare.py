"""Search equals the reference, on a recurrent model and on a Transformer; and a difference would be told."""

import pytest
import torch

from qkv.config import part
from qkv.decode import compare as compare_module
from qkv.decode.compare import Agreement, compare
from qkv.decode.hypothesis import Marks
from qkv.decode.reference import reference
from qkv.decode.search import Waiting, stream
from qkv.decode.settings import SearchSettings
from qkv.decode.task import Task
from qkv.models.base import Model, Sizes, build
from tests.decode.toys import EOS, MARKS, Recurrent, Table, batch_of, searched

KINDS = {
    "greedy": {"num_beams": 1},
    "the paper's": {},
    "average": {"length_norm": "average"},
    "n-best": {"num_beams": 4, "num_return_sequences": 4},
    "first finished": {"early_stopping": True, "num_beams": 3},
    "constrained": {"no_repeat_ngram_size": 2, "min_new_tokens": 2},
    "sampled": {"do_sample": True, "num_return_sequences": 2, "top_k": 5},
}
PREFIXES = [[], [6, 7, 8], [5]]


@pytest.fixture(scope="module")
def transformer() -> Model:
    """One layer before two, with logits far enough apart that texts differ and end."""
    options = {"width": 16, "encoder_layers": 1, "decoder_layers": 2, "mixer": {"name": "attention", "heads": 2}}
    output = {"tie": "none", "output_bias": True}
    config = {"name": "transformer", "feedforward": {"name": "relu", "hidden": 32}, "dropout": 0.0, **options, **output}
    model = build(part("model", config), Sizes(24, 24), seed=1).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)
        model.get_parameter("output.bias")[EOS] += 1.0
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_a_recurrent_model(kind: str) -> None:
    for seed in range(3):
        settings = SearchSettings(max_new_tokens=8, **KINDS[kind])  # type: ignore[arg-type]
        model = Recurrent(seed=seed, ending=2.0)
        for prefix in (None, PREFIXES):
            agreement = compare(model, batch_of([4, 7, 2]), settings, prefix=prefix, **MARKS)
            assert agreement.different == 0 and agreement.equal >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_transformer(transformer: Model, kind: str) -> None:
    settings = SearchSettings(max_new_tokens=6, **KINDS[kind])  # type: ignore[arg-type]
    agreement = compare(transformer, batch_of([4, 7, 2], 24), settings, prefix=PREFIXES, **MARKS)  # type: ignore[arg-type]
    assert agreement.different == 0 and agreement.equal >= 2


@pytest.mark.parametrize("kind", ["greedy", "n-best", "sampled"])
def test_a_transformer_whose_sentences_come_in_midway(transformer: Model, kind: str) -> None:
    """Rows that stand at different places, in caches of different sizes."""
    settings = SearchSettings(max_new_tokens=6, **KINDS[kind])  # type: ignore[arg-type]
    batch = batch_of([4, 7, 2], 24)
    waiting = [Waiting(one, [prefix]) for one, prefix in zip(batch.divided(3), PREFIXES, strict=True)]
    streamed = list(stream(transformer, waiting, settings, rows=12, **MARKS))  # type: ignore[arg-type]
    task = Task(transformer, settings, Marks(**MARKS))  # type: ignore[arg-type]
    for mine, (theirs, margin) in zip(streamed, reference(task, batch, PREFIXES), strict=True):
        assert margin < 1e-4 or [h.ids for h in mine] == [h.ids for h in theirs]


def test_texts_of_the_transformer_are_worth_comparing(transformer: Model) -> None:
    found = searched(transformer, batch_of([4, 7, 2], 24), num_return_sequences=4, max_new_tokens=6)
    assert len({h.ids for hs in found for h in hs}) > 8
    assert {h.finished for hs in found for h in hs} == {True, False}


def test_a_difference_counts_unless_it_hangs_on_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search is shown another model than the reference: one that prefers word 5 where the first prefers word 4."""
    table = torch.full((6, 6), -9.0)
    table[:, 4], table[:, 5] = -0.5, -1.5
    other = table.clone()
    other[:, 4], other[:, 5] = -1.5, -0.5
    close = table.clone()
    close[:, 5] = -0.50001
    settings, batch = SearchSettings(num_beams=1, max_new_tokens=3), batch_of([3, 4])
    honest = compare_module.search
    monkeypatch.setattr(compare_module, "search", lambda model, *a, **k: honest(Table(other), *a, **k))
    assert compare(Table(table), batch, settings, **MARKS) == Agreement(equal=0, different=2, within_margin=0)
    assert compare(Table(close), batch, settings, **MARKS) == Agreement(equal=0, different=0, within_margin=2)
    assert compare(Table(other), batch, settings, **MARKS) == Agreement(equal=2, different=0, within_margin=0)
