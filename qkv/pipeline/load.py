"""`qkv.load(path)`: from a folder to a translator; from several folders to one that averages their models."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from qkv import config
from qkv.errors import BundleError, ConfigError, nearest
from qkv.pipeline.bundle import GENERATION, Bundle, read_bundle
from qkv.pipeline.translator import MAX_TOKENS, Translator

if TYPE_CHECKING:
    import torch

    from qkv.decode.settings import SearchSettings
    from qkv.models.base import Model
    from qkv.models.protocols import Steps

PRECISIONS = ("bf16", "fp32")


def load(
    path: str | PathLike[str],
    *more: str | PathLike[str],
    precision: str | None = None,
    device: "torch.device | str | None" = None,
    max_tokens: int = MAX_TOKENS,
) -> Translator:
    """The translator in a verified folder; with several folders, an ensemble of them that decodes as the first does.

    `precision` is bf16 or fp32, by default what the machine is fastest in; `max_tokens` bounds a batch.
    """
    import torch

    from qkv import runtime

    chosen = precision or runtime.pick_precision()
    if chosen not in PRECISIONS:
        raise ConfigError(f'precision is "{chosen}"; {nearest(chosen, PRECISIONS)}')
    place = runtime.device() if device is None else device
    bundles = [read_bundle(Path(each)) for each in (path, *more)]
    first = bundles[0]
    for other in bundles[1:]:
        _check_alike(first, other)
    dtype = torch.bfloat16 if chosen == "bf16" else torch.float32
    return Translator(
        _together([bundle.build(dtype=dtype, device=place) for bundle in bundles]),
        first.source,
        first.target,
        decoding=_decoding(first),
        longest_source=min(bundle.longest_source for bundle in bundles),
        max_tokens=max_tokens,
        pretokenized=first.pretokenized,
        device=place,
        precision=chosen,
        name=" + ".join(bundle.folder.name for bundle in bundles),
    )


def _check_alike(first: Bundle, other: Bundle) -> None:
    for side in ("source", "target"):
        if getattr(first, side).fingerprint() != getattr(other, side).fingerprint():
            raise BundleError(
                f"{other.folder} has another {side} tokenizer than {first.folder}; "
                "an ensemble averages models of one vocabulary: train them from one prepared folder"
            )


def _together(models: "Sequence[Model]") -> "Steps":
    from qkv.decode.ensemble import Ensemble
    from qkv.models.protocols import Steps

    for model in models:
        if not isinstance(model, Steps):
            raise BundleError(f"a {type(model).__name__} does not write token by token, so it cannot translate")
    return models[0] if len(models) == 1 else Ensemble(models)  # type: ignore[return-value, arg-type]


def _decoding(bundle: Bundle) -> "SearchSettings":
    from qkv.decode.settings import SearchSettings

    try:
        return config.section(SearchSettings, bundle.decoding, "decoding")
    except ConfigError as error:
        raise BundleError(f"{bundle.folder / GENERATION} cannot be used: {error}") from None
