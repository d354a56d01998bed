"""Reading catalogs as data: JSON by component, gettext's binary form; and a split that lets nothing through."""

import json
import struct
import zipfile
from pathlib import Path

import pytest

from qkv.data.doctor.rules import key_of as key
from scripts.catalogs import Text, compiled, split, texts


def catalog(messages: dict[str, str], order: str = "<") -> bytes:
    """A gettext .mo file."""
    sides = [[s.encode() for s in messages], [s.encode() for s in messages.values()]]
    count, blob, tables = len(messages), b"", []
    start = 28 + 16 * count
    for side in sides:
        for text in side:
            tables.append(struct.pack(f"{order}2I", len(text), start + len(blob)))
            blob += text + b"\0"
    head = struct.pack(f"{order}7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0)
    return head + b"".join(tables) + blob


def wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as package:
        for name, content in files.items():
            package.writestr(name, content)
    return path


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_compiled_catalog_is_read(order: str) -> None:
    messages = {"": "Content-Type: text/plain", "Save": "Speichern", "menu\x04Open": "Öffnen"}
    messages["%d file\0%d files"] = "%d Datei\0%d Dateien"
    messages["one\0many"] = "a\0b\0c"
    found = dict(compiled(catalog(messages, order)))
    assert found == {"Save": "Speichern", "Open": "Öffnen", "%d file": "%d Datei", "%d files": "%d Dateien"}


def test_what_is_no_catalog_is_refused() -> None:
    with pytest.raises(ValueError, match="not a gettext catalog"):
        list(compiled(b"PK\x03\x04" + bytes(40)))


def test_json_is_paired_by_its_path(tmp_path: Path) -> None:
    english = {"a": {"b": "Turn on", "c": "Only English"}, "d": "OK", "e": "Two\nlines", "n": 3, "l": "word " * 99}
    german = {"a": {"b": "Einschalten"}, "d": "OK", "e": "Zwei\nZeilen", "n": 3, "l": "Wort " * 99}
    files = {
        "homeassistant/components/lamp/translations/en.json": json.dumps(english).encode(),
        "homeassistant/components/lamp/translations/de.json": json.dumps(german).encode(),
        "homeassistant/components/lamp/translations/fr.json": b"{}",
    }
    assert texts(wheel(tmp_path / "p.whl", files)) == [
        Text("lamp", "Turn on", "Einschalten"),
        Text("lamp", "Two lines", "Zwei Zeilen"),
    ]


def test_catalogs_are_found_in_a_package(tmp_path: Path) -> None:
    files = {"app/locale/de/LC_MESSAGES/django.mo": catalog({"Save": "Speichern"}), "app/x.py": b"raise SystemExit"}
    assert texts(wheel(tmp_path / "p.whl", files)) == [Text("app", "Save", "Speichern")]


def test_nothing_of_the_test_set_is_learned_from() -> None:
    pairs = [Text(f"part{i}", f"Text number {i // 2}!", f"Text Nummer {i // 3}") for i in range(2000)]
    made = split({"homeassistant": pairs, "other": [Text("app", "text NUMBER 3", "x")]}, percent=20)
    assert made.dev
    assert made.test
    learned = {key(side) for text in made.train for side in (text.english, text.german)}
    for held in (made.dev, made.test):
        assert not {key(side) for text in held for side in (text.english, text.german)} & learned
        assert not {text.component for text in held} & {text.component for text in made.train}
        assert len({key(text.english) for text in held}) == len(held)
    assert "app" in {text.component for text in made.train}


def test_a_component_stays_where_it_is_when_others_come() -> None:
    pairs = [Text(f"part{i}", f"word{i}", f"Wort{i}") for i in range(300)]
    before = split({"homeassistant": pairs})
    after = split({"homeassistant": [*pairs, *(Text(f"new{i}", f"more{i}", f"mehr{i}") for i in range(50))]})
    assert set(before.test) <= set(after.test)
    assert set(before.train) <= set(after.train)
