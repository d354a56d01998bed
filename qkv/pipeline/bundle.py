"""A model as a folder that others understand: written whole or not at all, verified before use, never unpickled.

    config.json             the model: a registered name and all its settings, sizes, languages, format
    generation_config.json  how it decodes unless told otherwise, under the names that users know
    model.safetensors       the weights
    tokenizer.json          and qkv_tokenizer.json beside it; where the sides differ, in source/ and target/
    README.md               the model card
    manifest.json           the size and SHA-256 of each file

A run's folder is a bundle at its root: only what the manifest lists belongs to the bundle, and nothing else is read.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv import __version__, config, folder
from qkv.config import Part
from qkv.data.tokenizers.base import Specials, Tokenizer
from qkv.errors import BundleError, ConfigError, QkvError
from qkv.pipeline import weights as weights_of
from qkv.pipeline.card import Card, card_text

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from qkv.models.base import Model

FORMAT = 1
CONFIG, GENERATION, WEIGHTS, CARD = "config.json", "generation_config.json", "model.safetensors", "README.md"
SIDES = ("source", "target")
NEXT = ".bundle"  # hidden: no part of any folder's content
LARGEST_CONFIG = 1 << 20
KEYS = {"format", "qkv_version", "model_type", "architectures", "vocabulary", "languages", "longest_source", "model"}


@dataclass(frozen=True, eq=False)
class Bundle:
    """A verified folder: everything but the weights, which `build` brings."""

    folder: Path
    part: Part[Any]
    source: Tokenizer
    target: Tokenizer
    decoding: Mapping[str, Any]
    languages: Mapping[str, str]
    longest_source: int  # tokens, the end mark included: what it was trained on

    @property
    def pretokenized(self) -> bool:
        """Its text is words and blanks already; a tokenizer that does not say splits at blanks."""
        return bool(self.target.options().get("pretokenized", True))

    def build(self, *, dtype: "torch.dtype", device: "torch.device | str" = "cpu") -> "Model":
        """The model with its weights, ready to run."""
        from qkv.models.base import Sizes

        sizes = Sizes(self.source.size, self.target.size)
        return weights_of.load_model(self.part, sizes, self.folder / WEIGHTS, dtype=dtype, device=device)


def write_bundle(
    path: Path,
    *,
    part: Part[Any],
    weights: "Mapping[str, Tensor]",
    source: Tokenizer,
    target: Tokenizer,
    decoding: Mapping[str, Any],
    card: Card,
    longest_source: int = 1024,
) -> None:
    """Writes or replaces the bundle at `path`; what else a run keeps there is left alone.

    `weights` are the model's, a shared one once (`qkv.models.base.weights`); a tokenizer of both sides is given twice.
    """
    made = path / NEXT
    folder.make_folder(path)
    with folder.new_folder(made, replace=True) as draft:
        _write_text(draft, part, source, target, decoding, card, longest_source)
        _write_weights(draft, part, weights, source, target, card, path)
        ours = {name.name for name in draft.iterdir()}
        beside = {name for name in os.listdir(path) if not name.startswith(".")} | {"checkpoints"}
        folder.write_manifest(draft, beside=beside - ours)
    with folder.writing(path):
        # The manifest goes last: a kill in between leaves a folder that is refused, never one that mixes two models.
        names = [*sorted(folder.read_manifest(made)), folder.MANIFEST]
        for name in names:
            (path / name).parent.mkdir(exist_ok=True)
            os.replace(made / name, path / name)
        for parent in {(path / name).parent for name in names}:
            folder.sync(parent)
    folder.remove_folder(made)


def read_bundle(path: Path) -> Bundle:
    """The bundle in a folder, every file of it verified; damaged, foreign and newer ones are refused by name."""
    _refuse_foreign(path)
    listed = folder.read_manifest(path)
    folder.verify(path, only=listed.keys())
    for name in (CONFIG, GENERATION, WEIGHTS):
        if name not in listed:
            raise BundleError(f"{path / folder.MANIFEST} lists no {name}; it is not the manifest of a model")
    facts = _read_config(path / CONFIG)
    decoding = _mapping(folder.read_json(path / GENERATION, limit=LARGEST_CONFIG), path / GENERATION)
    own = {key: value for key, value in decoding.items() if key not in _ids() and key != "qkv_version"}
    sides = {side: _tokenizer(path, side, listed) for side in SIDES}
    for side, tokenizer in sides.items():
        if tokenizer.size != facts["vocabulary"][side]:
            raise BundleError(
                f"{path / CONFIG} says {facts['vocabulary'][side]:,} {side} tokens, "
                f"the tokenizer has {tokenizer.size:,}; they are not a pair"
            )
    return Bundle(
        path, facts["part"], sides["source"], sides["target"], own, facts["languages"], facts["longest_source"]
    )


def _write_text(
    draft: Path,
    part: Part[Any],
    source: Tokenizer,
    target: Tokenizer,
    decoding: Mapping[str, Any],
    card: Card,
    longest_source: int,
) -> None:
    if source.fingerprint() == target.fingerprint():
        source.save(draft)
    else:
        for side, tokenizer in zip(SIDES, (source, target), strict=True):
            tokenizer.save(draft / side)
    document = {
        "format": FORMAT,
        "qkv_version": __version__,
        "model_type": part.name,
        "architectures": [part.name],
        "vocabulary": {"source": source.size, "target": target.size},
        "languages": {"source": card.source_language, "target": card.target_language},
        "longest_source": longest_source,
        "model": config.plain(part),
    }
    assert document.keys() == KEYS
    folder.write_json(draft / CONFIG, document)
    folder.write_json(draft / GENERATION, {**config.plain(decoding), **_ids(), "qkv_version": __version__})


def _write_weights(
    draft: Path,
    part: Part[Any],
    weights: "Mapping[str, Tensor]",
    source: Tokenizer,
    target: Tokenizer,
    card: Card,
    path: Path,
) -> None:
    """The weights, seen to be those that the config describes; and the card, which counts them."""
    from qkv.models.base import Sizes, parameters
    from qkv.tensors import write_tensors

    write_tensors(draft / WEIGHTS, weights)
    model = weights_of.declared(part, Sizes(source.size, target.size), draft / WEIGHTS)
    folder.write_text(draft / CARD, card_text(card, model=part.name, parameters=parameters(model), path=path.name))


def _refuse_foreign(path: Path) -> None:
    if not path.is_dir():
        raise BundleError(f"{path} is not there; give the folder of a model or of a run that has saved one")
    if (path / folder.MANIFEST).exists():
        return
    if (path / "checkpoints").is_dir():
        raise BundleError(f"{path} is a run that has saved no model yet; wait for its first validation")
    if (path / CONFIG).exists():
        raise BundleError(
            f"{path} has no {folder.MANIFEST}: a model that qkv did not write, and it reads its own alone"
        )
    raise BundleError(f"{path} holds no model: {folder.MANIFEST} is missing; give the folder that `qkv train` wrote")


def _read_config(path: Path) -> dict[str, Any]:
    """The closed data of config.json, checked one by one."""
    document = _mapping(folder.read_json(path, limit=LARGEST_CONFIG), path)
    found = document.get("format")
    if type(found) is not int or found < 1:
        raise BundleError(f"{path} has no format number: not a model that qkv wrote, and it reads its own alone")
    if found > FORMAT:
        raise BundleError(
            f"{path} has format {found}, written by qkv {document.get('qkv_version')}; "
            f"this qkv {__version__} reads up to {FORMAT}: use a newer one"
        )
    weights_of.check_bounds(document, path)
    if odd := sorted(document.keys() ^ KEYS):
        raise BundleError(
            f'{path}: "{odd[0]}" is {"unknown" if odd[0] in document else "missing"}; restore it from a copy'
        )
    vocabulary, languages = (_mapping(document[key], path) for key in ("vocabulary", "languages"))
    right = (
        vocabulary.keys() == set(SIDES) == languages.keys()
        and all(type(size) is int and size > 0 for size in vocabulary.values())
        and all(isinstance(language, str) for language in languages.values())
        and type(document["longest_source"]) is int
        and document["longest_source"] > 0
    )
    if not right:
        raise BundleError(f"{path} is not what qkv writes; restore it from a copy")
    try:
        part = config.part("model", document["model"], "model")
    except ConfigError as error:
        raise BundleError(f"{path} describes no model that this qkv knows: {error}") from None
    if part.name != document["model_type"]:
        raise BundleError(f"{path} has two names for its model, {part.name} and {document['model_type']}; restore it")
    return {"part": part, **{key: document[key] for key in ("vocabulary", "languages", "longest_source")}}


def _tokenizer(path: Path, side: str, listed: Mapping[str, Any]) -> Tokenizer:
    where = path if "tokenizer.json" in listed else path / side
    name = (where / "tokenizer.json").relative_to(path).as_posix()
    if name not in listed:
        raise BundleError(f"{path / name} is missing: the model has no {side} tokenizer; restore it from a copy")
    try:
        tokenizer: Tokenizer = Tokenizer.load(where)
    except BundleError:
        raise
    except QkvError as error:
        raise BundleError(f"{path / name} cannot be used: {error}") from None
    return tokenizer


def _ids() -> dict[str, int]:
    return {"pad_token_id": Specials.PAD, "bos_token_id": Specials.BOS, "eos_token_id": Specials.EOS}


def _mapping(value: Any, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BundleError(f"{path} holds a {type(value).__name__} where a mapping belongs; restore it from a copy")
    return value
