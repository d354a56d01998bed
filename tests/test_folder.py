"""Files and folders that appear whole or not at all, whatever refuses or kills; damage that is named."""

import errno
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from qkv.errors import BundleError, RunError
from qkv.folder import (
    MANIFEST,
    canonical,
    clean,
    digest,
    new_file,
    new_folder,
    read_json,
    read_manifest,
    remove_folder,
    verify,
    write_json,
    write_manifest,
    write_text,
)
from tests.torture.faults import killed_at, refusing
from tests.torture.row import hidden


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "note.txt"
    write_text(path, "old\n")
    with pytest.raises(KeyError), new_file(path) as draft:
        draft.write_text("half")
        raise KeyError
    assert path.read_text() == "old\n"
    write_text(path, "new\n")
    assert path.read_text() == "new\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["note.txt"]


def test_rights_follow_the_umask_even_where_a_writer_made_its_file_private(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with new_file(tmp_path / "weights") as draft:
            draft.write_bytes(b"x")
            draft.chmod(0o600)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "weights").stat().st_mode) == 0o640


def test_a_kill_before_any_call_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    path, outcomes = tmp_path / "note.txt", []
    for place in range(1, 60):
        write_text(path, "old")
        if not killed_at(place, lambda: write_text(path, "new")):
            break
        outcomes.append(path.read_text())
        clean(tmp_path)
        assert [entry.name for entry in tmp_path.iterdir()] == ["note.txt"]
    else:
        pytest.fail("a write of one file never came to its end")
    assert outcomes == sorted(outcomes, reverse=True), "once new, always new"
    assert set(outcomes) == {"old", "new"}


def test_a_kill_before_any_call_leaves_the_old_folder_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # a kill, unlike a power cut, loses nothing written
    path, outcomes = tmp_path / "model", []

    def fill(text: str) -> None:
        with new_folder(path, replace=True) as draft:
            write_text(draft / "a", text)
            write_text(draft / "sub" / "b", text)

    for place in range(1, 200):
        fill("old")
        if not killed_at(place, lambda: fill("new")):
            break
        clean(tmp_path)
        assert not hidden(tmp_path)
        a, b = (path / "a").read_text(), (path / "sub" / "b").read_text()
        assert a == b
        outcomes.append(a)
    else:
        pytest.fail("a write of one folder never came to its end")
    assert set(outcomes) == {"old", "new"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "no space left, .* MB free; make room"),
        (errno.EIO, "input/output error; check the disk"),
        (errno.EROFS, "read-only; mount it writable"),
        (errno.EACCES, "user .* may not write there"),
        (errno.EFBIG, "size limit; raise `ulimit -f`"),
        (errno.ENAMETOOLONG, "file name too long"),
    ],
)
def test_every_refusal_is_a_sentence_and_leaves_nothing(tmp_path: Path, code: int, words: str) -> None:
    write_text(tmp_path / "note", "old")
    with pytest.raises(RunError, match=words) as caught, refusing(1, code):
        write_text(tmp_path / "note", "new")
    assert str(tmp_path / "note") in str(caught.value)
    assert (tmp_path / "note").read_text() == "old"
    assert not hidden(tmp_path)


def test_a_folder_in_the_way_of_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write .*: not a directory"):
        write_text(tmp_path / "file" / "note", "x")


def test_a_folder_that_holds_something_is_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("years of work")
    with pytest.raises(RunError, match="not empty; choose another"), new_folder(tmp_path / "thesis"):
        pytest.fail("the block must not run")
    assert (tmp_path / "thesis" / "chapter").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    with new_folder(tmp_path / "empty") as draft:
        (draft / "a").write_text("1")
    assert (tmp_path / "empty" / "a").read_text() == "1"


def test_cleaning_spares_what_is_being_written_and_what_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".x.partial").mkdir()
    (tmp_path / ".gone.0123abcd.removed").mkdir()
    (tmp_path / ".lost.0123abcd.replaced").mkdir()
    with new_folder(tmp_path / "model") as draft:
        assert clean(tmp_path) == [".gone.0123abcd.removed", ".lost.0123abcd.replaced"]
        assert draft.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".git", ".x.partial", "lost", "model"]
    assert clean(tmp_path / "nowhere") == []


def test_a_removal_that_is_refused_halfway_hides_the_folder(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a").write_text("1")
    with pytest.raises(RunError), patch("shutil.rmtree", side_effect=OSError(errno.EIO, "failed")):
        remove_folder(tmp_path / "old")
    assert not (tmp_path / "old").exists()
    assert len(clean(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


def test_json_is_canonical_and_strict(tmp_path: Path) -> None:
    assert canonical({"b": 1, "a": [True, None, "ä"]}) == '{\n "a": [\n  true,\n  null,\n  "ä"\n ],\n "b": 1\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"loss": float("nan")})
    write_json(tmp_path / "state.json", {"best": float("inf"), "rate": 0.1 + 0.2}, finite=False)
    assert read_json(tmp_path / "state.json") == {"best": float("inf"), "rate": 0.1 + 0.2}


@pytest.mark.parametrize("raw", [b"", b"{", b'"\xff"', b"[" * 100_000, b'{"a": 1} x', b"\x00" * 9])
def test_what_is_not_json_is_a_sentence(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "config.json").write_bytes(raw)
    with pytest.raises(BundleError, match=r"config\.json is not JSON"):
        read_json(tmp_path / "config.json")


def test_json_of_any_size_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('"' + "x" * 1000 + '"')
    with pytest.raises(BundleError, match="larger than 100 bytes"):
        read_json(tmp_path / "config.json", limit=100)
    with pytest.raises(BundleError, match="missing"):
        read_json(tmp_path / "none.json")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    write_text(folder / "config.json", "{}\n")
    write_text(folder / "source" / "tokenizer.json", "[1]\n")
    write_text(folder / "log.jsonl", "beside\n")
    write_manifest(folder, beside=["log.jsonl", "checkpoints"])
    return folder


def test_a_sound_folder_verifies_whatever_is_beside_or_hidden(model: Path) -> None:
    (model / "checkpoints").mkdir()
    (model / "checkpoints" / "x").write_text("1")
    (model / "log.jsonl").write_text("changed\n")
    (model / ".lock").write_text("")
    verify(model)
    entry = read_manifest(model)["source/tokenizer.json"]
    assert entry == (4, digest(model / "source" / "tokenizer.json"))
    assert sorted(read_manifest(model)) == ["config.json", "source/tokenizer.json"]


def _flip_a_blank(model: Path) -> None:
    path = model / MANIFEST
    path.write_bytes(path.read_bytes().replace(b"\n", b" ", 1))


def _make_pipe(model: Path) -> None:
    os.mkfifo(model / "pipe")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda model: (model / "config.json").unlink(), r"config\.json is missing"),
        (
            lambda model: (model / "config.json").write_text("{} \n"),
            r"config\.json is damaged: 4 bytes where .* says 3",
        ),
        (lambda model: (model / "config.json").write_text("[]\n"), r"config\.json is damaged: its SHA-256"),
        (lambda model: (model / "source" / "extra").write_text(""), r"source/extra is not listed"),
        (lambda model: (model / MANIFEST).unlink(), r"manifest\.json is missing"),
        (lambda model: (model / MANIFEST).write_text("[]"), r"manifest\.json is damaged: not a manifest"),
        (lambda model: (model / MANIFEST).write_text('{"version": 9}'), r"manifest\.json has version 9"),
        (_flip_a_blank, r"manifest\.json is damaged: it does not bear its own SHA-256"),
        (_make_pipe, "pipe is neither a file nor a folder"),
        (lambda model: (model / "link").symlink_to(model / "source"), "link is neither a file nor a folder"),
    ],
)
def test_damage_is_named(model: Path, damage: Callable[[Path], object], words: str) -> None:
    verify(model)
    damage(model)
    with pytest.raises(BundleError, match=words):
        verify(model)


def test_part_of_a_folder_can_be_verified(model: Path) -> None:
    (model / "config.json").write_text("[]\n")
    verify(model, only=["source/tokenizer.json"])
    verify(model, deep=False)
    with pytest.raises(BundleError, match="SHA-256"):
        verify(model, only=["config.json"])
    with pytest.raises(BundleError, match="not listed"):
        verify(model, only=["weights"])
    with pytest.raises(BundleError, match="is not a folder"):
        verify(model / "nowhere")


def test_a_manifest_cannot_point_outside(model: Path) -> None:
    (model.parent / "secret").write_text("{}\n")
    (model / "config.json").rename(model / "x")
    text = (model / MANIFEST).read_text().replace("config.json", "../secret")
    (model / MANIFEST).write_text(text)
    with pytest.raises(BundleError, match="does not bear its own"):
        verify(model)
    body = {"beside": [], "files": {"../secret": {"size": 3, "sha256": digest(model.parent / "secret")}}, "version": 1}
    with patch("qkv.folder._listing", return_value=[]):
        write_manifest(model)
    from qkv.folder import _seal

    write_json(model / MANIFEST, body | {"sha256": _seal(body)})
    with pytest.raises(BundleError, match="secret is missing"):
        verify(model)


def test_a_file_that_cannot_be_read_is_named(model: Path) -> None:
    with (
        patch("qkv.folder.digest", side_effect=OSError(errno.EIO, "Input/output error")),
        pytest.raises(BundleError, match=r"config\.json cannot be read: Input/output error"),
    ):
        verify(model)


def test_no_tensor_library_is_imported() -> None:
    command = "import sys, qkv.folder, qkv.lock; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command]).returncode == 0
    assert logging.getLogger("qkv").handlers == []
