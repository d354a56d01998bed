"""What every tokenizer answers: texts to ids, ids to text, a folder to live in and a fingerprint.

The folder holds `tokenizer.json`, which the plain `tokenizers` library loads, and `qkv_tokenizer.json` with our own
options. Loading takes the tokens, the merges and our options out of them and builds everything else anew; a file
that then differs in anything else was not written here, and is refused.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from qkv.errors import BundleError, ConfigError, DataError
from qkv.folder import make_folder, read_json, write_json, write_text
from qkv.registry import find

TOKENIZER = "tokenizer.json"
OPTIONS = "qkv_tokenizer.json"
FORMAT = 1
LARGEST_FILE = 1 << 28  # a million tokens and their merges take a third of this


class Specials:
    """The ids that every tokenizer keeps for the model's own marks."""

    PAD: Final = 0
    UNK: Final = 1
    BOS: Final = 2
    EOS: Final = 3


SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")  # by id
UNSEEN = ("<pad>", "<s>", "</s>")  # decoding leaves these out; an unknown word stays visible


class Tokenizer(ABC):
    """Texts to ids without special ones, and back."""

    kind: ClassVar[str] = "tokenizer"
    name: ClassVar[str]
    tokens: tuple[str, ...]
    dropout: float = 0.0

    @property
    def size(self) -> int:
        """The number of ids, special ones included."""
        return len(self.tokens)

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, the same each time."""

    def encode_varied(self, texts: Sequence[str], keys: Sequence[int]) -> list[list[int]]:
        """Ids of each text as training sees it, varied by the 64-bit key of each sample alone."""
        assert len(texts) == len(keys), (len(texts), len(keys))
        return self.encode(texts)

    @abstractmethod
    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row; padding, begin and end marks are left out."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Our own options, as JSON."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The content of `tokenizer.json`."""

    @classmethod
    @abstractmethod
    def rebuilt(cls, document: Mapping[str, Any], options: Mapping[str, Any], path: Path) -> "Tokenizer":
        """The tokenizer with these tokens and options; a BundleError naming `path` where they cannot be one."""

    def save(self, folder: Path) -> None:
        """Writes both files; the same tokenizer gives the same bytes."""
        make_folder(folder)
        text = json.dumps(self.document(), ensure_ascii=False, separators=(",", ":"))
        write_text(folder / TOKENIZER, text + "\n")
        write_json(folder / OPTIONS, {"format": FORMAT, "name": self.name, **self.options()})

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """The tokenizer in a folder, of whatever registered name; called on a concrete class, only of that one."""
        path = folder / OPTIONS
        options = read_json(path)
        if not isinstance(options, dict) or options.get("format") != FORMAT:
            found = options.get("format") if isinstance(options, dict) else None
            raise BundleError(
                f"{path}: format {found!r} where this version reads {FORMAT}; save it again with this version"
            )
        found = options.get("name")
        try:
            # The registry names the function that trains one, a class method.
            made = find("tokenizer", found).__self__ if isinstance(found, str) else None
        except ConfigError as error:
            raise BundleError(f"{path}: {error}") from None
        if not (isinstance(made, type) and issubclass(made, cls)):
            raise BundleError(
                f"{path}: its name {found!r} is not a {cls.__name__.lower()} tokenizer's; restore the file"
            )
        document = read_json(folder / TOKENIZER, limit=LARGEST_FILE)
        if not isinstance(document, dict):
            raise BundleError(f"{folder / TOKENIZER}: a {type(document).__name__}, not an object; restore the file")
        own = {key: value for key, value in options.items() if key not in ("format", "name")}
        tokenizer = made.rebuilt(document, own, folder / TOKENIZER)
        if own != tokenizer.options():
            raise BundleError(
                f"{path}: options {sorted(own)} where {sorted(tokenizer.options())} belong; restore the file"
            )
        if at := difference(tokenizer.document(), document):
            raise BundleError(
                f"{folder / TOKENIZER}: {at} is not what its options ask for; restore the file from a copy"
            )
        return tokenizer

    def fingerprint(self) -> str:
        """SHA-256 over all that decides the ids, whatever version of the library is installed."""
        merges = self.document()["model"].get("merges")
        content = {"name": self.name, "options": self.options(), "tokens": self.tokens, "merges": merges}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def difference(expected: Any, found: Any, at: str = "") -> str | None:
    """Where `found` says something else than `expected`; what a newer library adds is not missed in an older file."""
    if isinstance(expected, dict) and isinstance(found, dict):
        unknown = sorted(found.keys() - expected.keys(), key=str)
        if unknown:
            return f'"{at}{unknown[0]}"'
        return next((d for key in found if (d := difference(expected[key], found[key], f"{at}{key}."))), None)
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = zip(expected, found, strict=True)
        return next((d for number, (e, f) in enumerate(pairs) if (d := difference(e, f, f"{at}{number}."))), None)
    return None if type(expected) is type(found) and expected == found else f'"{at.rstrip(".")}"'


def tokens_of(document: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """The vocabulary in the order of its ids: 0, 1, 2 ..., the special tokens first."""
    model = document.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict) or not vocabulary:
        raise BundleError(f"{path}: holds no vocabulary; restore the file from a copy")
    if not all(type(number) is int for number in vocabulary.values()):
        raise BundleError(f"{path}: an id of its vocabulary is not a whole number; restore the file from a copy")
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[token] for token in tokens] != list(range(len(tokens))):
        raise BundleError(f"{path}: ids of its {len(tokens)} tokens do not run from 0 without a gap; restore the file")
    if tuple(tokens[:4]) != SPECIAL_TOKENS:
        raise BundleError(f"{path}: ids 0 to 3 are {tokens[:4]} where {list(SPECIAL_TOKENS)} belong; convert it first")
    if "" in vocabulary or not is_text("".join(tokens)):
        raise BundleError(f"{path}: a token is empty or not Unicode text; restore the file from a copy")
    return tuple(tokens)


def is_text(text: str) -> bool:
    """False for a string with half a surrogate pair, which JSON can spell and no UTF-8 text holds."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def require_text(texts: Sequence[str]) -> None:
    """Refuses what is not Unicode text, naming the first such text by its number."""
    for number, text in enumerate(texts, start=1):
        if not is_text(text):
            raise DataError(f"text {number} of {len(texts)}: holds half a surrogate pair; send valid Unicode")
