"""Sizes that no machine can hold are refused by name before memory is taken."""

import tracemalloc
from pathlib import Path

import pytest
import torch

from qkv import config
from qkv.errors import ConfigError, RunError
from qkv.models.base import Sizes, outline, parameters
from qkv.runtime import Gpu, Machine
from qkv.train import fit
from qkv.train.fit import check_fit, enough_memory
from qkv.train.recipe import Recipe
from tests.torture import trainee


def machine(memory: int, gpus: tuple[Gpu, ...] = ()) -> Machine:
    return Machine("a processor", (), 1, 1, 1, memory, "2.13", gpus)


def recipe(folder: Path, *overrides: tuple[str, str]) -> Recipe:
    found: Recipe = config.section(Recipe, config.overridden(trainee.tree(folder, max_steps=1), list(overrides)))
    return found


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model.width", "1000000000", "model.width is 1,000,000,000; 4,194,304 is the largest number"),
        ("model.width", "4000000", "parameters; learning them takes"),
        ("model.feedforward.hidden", "4194304000", "model.feedforward.hidden is 4,194,304,000"),
        ("model.mixer.heads", "3", "width 16 does not divide into 3 heads"),
        ("train.max_tokens", "1000000000000", "train.max_tokens is 1,000,000,000,000"),
        ("schedule", "cosine", ""),
    ],
)
def test_absurd_sizes_take_no_memory(tmp_path: Path, key: str, value: str, words: str) -> None:
    absurd = recipe(tmp_path, (key, value))
    check_fit(recipe(tmp_path))  # what torch imports when it is first used is not what is measured
    tracemalloc.start()
    try:
        if words:
            with pytest.raises(ConfigError) as caught:
                check_fit(absurd)
            assert words in str(caught.value)
        else:
            check_fit(absurd)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_too_many_layers_are_refused_while_they_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "MOST_TENSORS", 300)
    with pytest.raises(ConfigError, match="more than 300 tensors of weights, the limit; give it fewer layers"):
        check_fit(recipe(tmp_path, ("model.encoder_layers", "1000000")))


def test_what_just_fits_is_let_through(tmp_path: Path) -> None:
    just, sizes = recipe(tmp_path, ("train.max_tokens", "64")), Sizes(50, 50)
    needed = 16 * parameters(outline(just.model, sizes))
    check_fit(just, sizes, machine(needed))
    with pytest.raises(ConfigError, match=r"parameters; learning them takes 0\.0 GB"):
        check_fit(just, sizes, machine(needed - 1))
    check_fit(just, Sizes(1, 1), machine(needed - 1))


def test_the_smallest_gpu_decides_where_there_is_one(tmp_path: Path) -> None:
    gpus = tuple(Gpu("one", memory, bf16=True) for memory in (10**12, 1000))
    with pytest.raises(ConfigError, match="choose a smaller width"):
        check_fit(recipe(tmp_path), machine=machine(10**12, gpus))


def test_parts_make_a_batch_smaller(tmp_path: Path) -> None:
    memory, many = 10**9, ("train.max_tokens", "100000000")
    with pytest.raises(ConfigError, match=r"lower it or raise train\.parts"):
        check_fit(recipe(tmp_path, many), machine=machine(memory))
    check_fit(recipe(tmp_path, many, ("train.parts", "100")), machine=machine(memory))


def test_a_schedule_without_an_end_is_told_before_the_data_are_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"set train\.max_steps or schedule\.steps"):
        check_fit(recipe(tmp_path, ("schedule", "cosine"), ("train.max_steps", "null"), ("train.max_epochs", "1")))


def test_memory_that_is_not_there_is_one_sentence() -> None:
    # The processor's allocator, asked for an exabyte.
    with (
        pytest.raises(RunError, match=r"step 7 needs more memory than there is; lower train\.max_tokens"),
        enough_memory(7),
    ):
        torch.empty(1 << 60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="another fault"), enough_memory(7):
        raise RuntimeError("another fault")
