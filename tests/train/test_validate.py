"""The verdict on the development set: -log p a token over all of it, scores on wish, better and worse."""

from pathlib import Path

import pytest
import torch

from qkv.train.validate import Verdict, validate
from tests.torture import trainee


@pytest.mark.parametrize(
    ("metric", "value", "best", "beats"),
    [
        ("nll", 2.0, None, True),
        ("nll", 2.0, 3.0, True),
        ("nll", 3.0, 3.0, False),
        ("nll", float("nan"), None, False),
        ("bleu", 20.0, 19.0, True),
        ("bleu", 20.0, 21.0, False),
        ("chrf", float("nan"), 1.0, False),
    ],
)
def test_what_beats_the_best(metric: str, value: float, best: float | None, beats: bool) -> None:
    assert Verdict({metric: value}, metric, 0.0).beats(best) is beats


def test_the_whole_set_counts_token_by_token_however_it_is_cut(tmp_path: Path) -> None:
    recipe = trainee.recipe(tmp_path, max_steps=1, precision="fp32")
    with trainee.trainer_of(recipe, tmp_path / "run") as trainer:
        objective, data = trainer.objective, trainer.data
        verdicts = [
            validate(objective, data, "nll", recipe.decode, tokens, torch.device("cpu")) for tokens in (40, 10_000)
        ]
        assert verdicts[0].value == pytest.approx(verdicts[1].value, rel=1e-5)
        assert objective.training
        plan, collate = data.held_out(max_tokens=10_000)
        assert len(plan) == 1
        batch = collate(plan.batch(0))
        assert batch.target is not None
        hidden, _ = trainer.model.hidden(batch)
        weight, _ = trainer.model.projection()
        log_p = torch.log_softmax(hidden @ weight.T, -1).gather(2, batch.target.ids[:, 1:, None]).squeeze(2)
        real = torch.arange(1, batch.target.ids.shape[1]) < batch.target.lengths[:, None]
        assert verdicts[1].value == pytest.approx(float(-log_p[real].mean().detach()), rel=1e-5)


def test_translations_are_scored_where_that_is_asked_for(tmp_path: Path) -> None:
    recipe = trainee.recipe(tmp_path, max_steps=1)
    with trainee.trainer_of(recipe, tmp_path / "run") as trainer:
        verdict = validate(trainer.objective, trainer.data, "chrf", recipe.decode, 4096, torch.device("cpu"))
    assert verdict.scores.keys() == {"nll", "bleu", "chrf"}
    assert verdict.value == verdict.scores["chrf"] >= 0
    assert str(verdict).startswith(f"nll {verdict.scores['nll']:.4f}  bleu ")
