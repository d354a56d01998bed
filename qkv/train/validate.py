"""How a model does on the development set: -log p a token, and on wish the scores of its translations."""

import time
from dataclasses import dataclass
from typing import cast

import torch

from qkv.data.parallel import PreparedParallel
from qkv.decode.settings import SearchSettings
from qkv.metrics.text import bleu, chrf
from qkv.models.protocols import Steps
from qkv.objectives.base import Objective
from qkv.pipeline.translator import Translator


@dataclass(frozen=True)
class Verdict:
    """What was measured; `value` is the chosen metric."""

    scores: dict[str, float]
    metric: str
    seconds: float

    @property
    def value(self) -> float:
        return self.scores[self.metric]

    def beats(self, best: float | None) -> bool:
        """Lower is better for -log p, higher for the scores of translations; never what is not a number."""
        if self.value != self.value:
            return False
        return best is None or (self.value < best if self.metric == "nll" else self.value > best)

    def __str__(self) -> str:
        return "  ".join(
            f"{name} {value:.4f}" if name == "nll" else f"{name} {value:.2f}" for name, value in self.scores.items()
        )


def validate(
    objective: Objective,
    data: PreparedParallel,
    metric: str,
    decoding: SearchSettings,
    max_tokens: int,
    device: torch.device,
) -> Verdict:
    """The model as it stands; it is left in training mode."""
    began = time.monotonic()
    objective.eval()
    scores = {"nll": _nll(objective, data, max_tokens, device)}
    if metric != "nll":
        sources, references = data.dev_texts()
        hypotheses = translator_of(objective, data, decoding, device).translate(sources)
        tokenize = "none" if data.target.options().get("pretokenized", True) else "13a"
        scores["bleu"] = bleu(hypotheses, [references], tokenize=tokenize).score()
        scores["chrf"] = chrf(hypotheses, [references]).score()
    objective.train()
    return Verdict(scores, metric, time.monotonic() - began)


def translator_of(
    objective: Objective, data: PreparedParallel, decoding: SearchSettings, device: torch.device
) -> Translator:
    """The model under training as a translator."""
    return Translator(
        cast(Steps, objective.model),
        data.source,
        data.target,
        decoding=decoding,
        longest_source=data.data.max_length,
        device=device,
    )


@torch.no_grad()
def _nll(objective: Objective, data: PreparedParallel, max_tokens: int, device: torch.device) -> float:
    plan, collate = data.held_out(max_tokens=max_tokens)
    total, tokens = 0.0, 0
    for index in range(len(plan)):
        batch = collate(plan.batch(index))
        count = batch.counts["target_tokens"]
        total += float(objective(batch.to(device), batch.counts)["nll"]) * count
        tokens += count
    return total / tokens
