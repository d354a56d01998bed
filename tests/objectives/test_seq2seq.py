"""Translation's loss: the parts of a batch give what the whole gives, dropout on; what counts and what does not."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv import config
from qkv.data.batch import Batch, Tokens
from qkv.errors import ConfigError
from qkv.models.base import Model, Sizes, build
from qkv.nn.call import Extras, Want
from qkv.objectives.seq2seq import Seq2Seq
from qkv.random import Noise

VOCABULARY = 13
LENGTHS = [(6, 5), (4, 7), (5, 2), (3, 4), (2, 6), (7, 3)]


def model(**options: object) -> Model:
    parts = {
        "name": "transformer",
        "width": 8,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "mixer": {"heads": 2, "dropout": 0.2},
        "feedforward": {"hidden": 12, "dropout": 0.2},
        "dropout": 0.3,
        **options,
    }
    return build(config.part("model", parts), Sizes(VOCABULARY, VOCABULARY), 3).double()


def rows(lengths: list[int], begin: bool) -> Tokens:
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(4, VOCABULARY, (length,))
        ids[row, length - 1] = 3
        if begin:
            ids[row, 0] = 2
    return Tokens(ids, torch.tensor(lengths))


def batch() -> Batch:
    source, target = ([pair[side] for pair in LENGTHS] for side in (0, 1))
    return Batch.of(torch.arange(len(LENGTHS)) + 70, rows(source, False), rows(target, True))


def learned(objective: Seq2Seq, parts: list[Batch], counts: dict[str, int]) -> tuple[dict[str, float], list[Tensor]]:
    """The sums of the parts' losses, and the gradients they add up to."""
    objective.zero_grad()
    sums: dict[str, float] = {}
    for part in parts:
        losses = objective(part, counts, Noise(5, 9, part.samples))
        losses["loss"].backward()
        for name, value in losses.items():
            sums[name] = sums.get(name, 0.0) + float(value.detach())
    return sums, [p.grad.clone() for p in objective.parameters() if p.grad is not None]


class Rows(Model):
    """A model whose auxiliary losses are known: the mean, over the rows of a part, of their sample numbers."""

    def __init__(self, inner: Model) -> None:
        super().__init__()
        self.inner, self.vocabulary = inner, VOCABULARY
        self.scale = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def hidden(self, batch: Batch, noise: Noise | None = None, want: Want = Want()) -> tuple[Tensor, Extras]:
        hidden, _ = self.inner.hidden(batch, noise, want)
        return hidden, Extras(losses={"balance": self.scale * batch.samples.double().mean()})

    def projection(self) -> tuple[Tensor, Tensor | None]:
        return self.inner.projection()


@pytest.mark.parametrize("parts", [2, 3, 4, 6])
@pytest.mark.parametrize("with_rows", [False, True], ids=["plain", "auxiliary"])
def test_parts_add_up_to_the_whole_with_dropout_on(parts: int, with_rows: bool) -> None:
    inner = model()
    objective, whole = Seq2Seq(Rows(inner) if with_rows else inner), batch()
    wanted, wanted_gradients = learned(objective, [whole], dict(whole.counts))
    found, gradients = learned(objective, whole.divided(parts), dict(whole.counts))
    assert found.keys() == wanted.keys() >= {"loss", "nll"}
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=1e-12)
    assert len(gradients) == len(list(objective.parameters()))
    for mine, theirs in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_dropout_was_on_and_is_keyed_by_step() -> None:
    objective, whole = Seq2Seq(model()), batch()
    losses = [float(objective(whole, whole.counts, noise)["loss"].detach()) for noise in (None, *_noises(whole))]
    assert losses[1] == losses[2]
    assert len({*losses}) == 3


def _noises(batch: Batch) -> list[Noise]:
    return [Noise(5, step, batch.samples) for step in (9, 9, 10)]


def test_auxiliary_losses_are_reported_and_learned() -> None:
    inner = model()
    plain, wrapped, whole = Seq2Seq(inner), Seq2Seq(Rows(inner)), batch()
    losses = wrapped(whole, whole.counts)
    mean = 2 * float(whole.samples.double().mean())
    assert float(losses["balance"].detach()) == pytest.approx(mean)
    assert float(losses["loss"].detach()) == pytest.approx(float(plain(whole, whole.counts)["loss"].detach()) + mean)
    assert not losses["balance"].requires_grad


def test_the_loss_is_that_of_the_next_tokens_alone() -> None:
    translator, whole = model(), batch()
    objective = Seq2Seq(translator, smoothing=0.2)
    losses = objective(whole, whole.counts)
    hidden, _ = translator.hidden(whole)
    weight, _ = translator.projection()
    assert whole.target is not None
    ids, lengths = whole.target.ids, whole.target.lengths
    logits = torch.cat([hidden[row, : n - 1] @ weight.T for row, n in enumerate(lengths.tolist())])
    wanted = torch.cat([ids[row, 1:n] for row, n in enumerate(lengths.tolist())])
    assert len(wanted) == whole.counts["target_tokens"] == sum(n - 1 for _, n in LENGTHS)
    torch.testing.assert_close(losses["loss"], F.cross_entropy(logits, wanted, label_smoothing=0.2))
    torch.testing.assert_close(losses["nll"], F.cross_entropy(logits, wanted).detach())


def test_held_out_text_is_scored_without_smoothing() -> None:
    objective, whole = Seq2Seq(model(), smoothing=0.3), batch()
    assert objective(whole, whole.counts)["loss"] != objective(whole, whole.counts)["nll"]
    objective.eval()
    losses = objective(whole, whole.counts)
    torch.testing.assert_close(losses["loss"].detach(), losses["nll"])


def test_packed_documents_are_as_if_alone() -> None:
    objective = Seq2Seq(model(), smoothing=0.1)
    apart = batch()
    assert apart.source is not None and apart.target is not None
    packed = Batch.of(torch.tensor([0]), _packed(apart.source), _packed(apart.target))
    assert packed.counts["target_tokens"] == apart.counts["target_tokens"]
    both = [objective(b, {**b.counts}) for b in (apart, packed)]
    for name in ("loss", "nll"):
        torch.testing.assert_close(both[0][name], both[1][name], rtol=1e-9, atol=1e-12)


def _packed(tokens: Tokens) -> Tokens:
    """All rows one after the other in a single one, and some padding."""
    pieces = [tokens.ids[row, :n] for row, n in enumerate(tokens.lengths.tolist())]
    marks = [torch.full_like(piece, number) for number, piece in enumerate(pieces, 1)]
    padding = torch.zeros(3, dtype=torch.long)
    ids = torch.cat([*pieces, padding])[None]
    return Tokens(ids, torch.tensor([ids.shape[1] - 3]), torch.cat([*marks, padding])[None])


def test_a_model_that_predicts_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="wants a model that predicts a target; Model does not"):
        Seq2Seq(Model())


def test_a_batch_counts_for_the_whole_step() -> None:
    objective, whole = Seq2Seq(model()), batch()
    once = objective(whole, whole.counts)
    counts = {unit: 2 * count for unit, count in whole.counts.items()}
    torch.testing.assert_close(2 * objective(replace(whole, counts=counts), counts)["loss"], once["loss"])
