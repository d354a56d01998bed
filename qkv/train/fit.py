"""What a run asks of the machine, held against it before anything is read or taken: a mistaken size is one sentence.

Only what is certain is refused: what learning keeps of each parameter, and one vector for each token of a batch. A run
that passes may still turn out to need more, and is then told so by the step that does.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from qkv import runtime
from qkv.config import plain
from qkv.errors import ConfigError, RunError
from qkv.models.base import Sizes, outline, parameters
from qkv.pipeline.weights import LARGEST_INTEGER

if TYPE_CHECKING:
    from qkv.train.recipe import Recipe

LEARNING = 16  # bytes a parameter: fp32 weight, gradient and Adam's two moments
MOST_TENSORS = 1 << 15  # a thousand layers of encoder and decoder have 21,000
UNKNOWN = Sizes(1, 1)  # before the data have been read


def check_fit(recipe: "Recipe", sizes: Sizes = UNKNOWN, machine: runtime.Machine | None = None) -> None:
    """Builds the run's parts without memory; what can't be built or can't be held is refused by name."""
    machine = machine or runtime.this_machine()
    memory = min((gpu.memory for gpu in machine.gpus), default=machine.memory)
    _check_integers(plain(recipe.model), "model")
    width = width_of(recipe)
    recipe.schedule.build(width, recipe.train.max_steps)
    try:
        with torch.device("meta"), _stopping_at(2 * memory // LEARNING):
            model = outline(recipe.model, sizes)
            recipe.objective.build(model)
    except (RuntimeError, ArithmeticError, ValueError, TypeError) as error:
        raise ConfigError(f"no model of these sizes can be built ({' '.join(str(error).split())})") from error
    if (count := parameters(model)) * LEARNING > memory:
        raise ConfigError(_too_large(f"{count:,} parameters", count * LEARNING, memory))
    tokens = recipe.train.max_tokens // recipe.train.parts
    if tokens * width * 4 > memory:
        raise ConfigError(
            f"train.max_tokens is {recipe.train.max_tokens:,}: one vector of width {width:,} for each token is "
            f"{_gigabytes(tokens * width * 4)}, this machine has {_gigabytes(memory)}; lower it or raise train.parts"
        )


def width_of(recipe: "Recipe") -> int:
    """The model's width, which schedules scale with; 1 where a model has none."""
    return int(recipe.model.options.get("width", 1))


@contextmanager
def enough_memory(step: int) -> Iterator[None]:
    """Turns a refused allocation into one sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        refused = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not refused and "can't allocate memory" not in str(error):
            raise
        raise RunError(
            f"step {step:,} needs more memory than there is; lower train.max_tokens, or raise train.parts: "
            "less at a time, the same gradient"
        ) from error


def _check_integers(tree: Any, where: str) -> None:
    """What loading the model would refuse is refused before training it."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            _check_integers(value, f"{where}.{name}")
    elif isinstance(tree, int) and abs(tree) > LARGEST_INTEGER:
        raise ConfigError(f"{where} is {tree:,}; {LARGEST_INTEGER:,} is the largest number a model may have")


@contextmanager
def _stopping_at(numbers: int) -> Iterator[None]:
    """Ends a construction that has taken more numbers or tensors than any run here could hold."""
    from torch.nn.modules.module import register_module_parameter_registration_hook

    seen = [0, 0]

    def count(module: torch.nn.Module, name: str, value: Tensor | None) -> None:
        if value is None or value.device.type != "meta":
            return
        seen[0] += value.numel()
        seen[1] += 1
        if seen[0] > numbers:
            # Some are replaced by shared ones, so that twice the memory is let through here and counted exactly later.
            raise ConfigError(
                _too_large(f"more than {seen[0]:,} parameters", seen[0] * LEARNING, numbers * LEARNING // 2)
            )
        if seen[1] > MOST_TENSORS:
            raise ConfigError(
                f"the model has more than {MOST_TENSORS:,} tensors of weights, the limit; give it fewer layers"
            )

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def _too_large(what: str, needed: int, memory: int) -> str:
    return (
        f"the model has {what}; learning them takes {_gigabytes(needed)} and this machine has {_gigabytes(memory)}; "
        "choose a smaller width, vocabulary or number of layers"
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
