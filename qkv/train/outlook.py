"""What a recipe would train, said without its data: parameters, steps, tokens, what is averaged and how it decodes."""

from dataclasses import dataclass

import torch

from qkv.models.base import Sizes, outline, parameters
from qkv.train.fit import width_of
from qkv.train.recipe import LIMITS, Recipe


@dataclass(frozen=True)
class Outlook:
    """The counts of a run before it."""

    vocabulary: int  # of each side; a corpus may give fewer
    parameters: int
    limits: dict[str, float]
    tokens_a_step: int
    peak_rate: float | None  # over the steps of the run; None where its last step is not known

    def lines(self, recipe: Recipe) -> list[str]:
        """For people."""
        train, decode = recipe.train, recipe.decode
        limits = " or ".join(f"{name} {value:,g}" for name, value in self.limits.items()) or "no limit: set one"
        rate = "" if self.peak_rate is None else f", highest learning rate {self.peak_rate:.4g}"
        mean = f"the mean of the last {train.average} validations' weights, " if train.average > 1 else ""
        every = f"every {train.validate_every:,} steps" if train.validate_every else "every epoch"
        return [
            f"model     {recipe.model.name}, {self.parameters:,} parameters with {self.vocabulary:,} tokens a side",
            f"training  until {limits}{rate}",
            f"a step    at most {self.tokens_a_step:,} tokens of the longer side, in {train.parts} part(s)",
            f"kept      {mean}chosen by {train.metric} on the development set, {every}",
            f"decoding  beam {decode.beams}, length norm {decode.length_norm} {decode.length_penalty:g}",
        ]


def outlook(recipe: Recipe) -> Outlook:
    """Counts on the meta device, at the vocabulary that the tokenizer is asked for."""
    options = recipe.data.options["tokenizer"].options
    vocabulary = int(options.get("merges") or options["vocabulary"])
    with torch.device("meta"):
        model = outline(recipe.model, Sizes(vocabulary, vocabulary))
    limits = {name: float(value) for name in LIMITS if (value := getattr(recipe.train, name)) is not None}
    last = recipe.train.max_steps
    schedule = recipe.schedule.build(width_of(recipe), last)
    peak = None if last is None else max(schedule.rate(step) for step in range(1, last + 1))
    return Outlook(vocabulary, parameters(model), limits, recipe.train.max_tokens, peak)
