"""What the README and the tutorial show runs: reduced here, whole by `make claims`."""

import subprocess
from pathlib import Path

import pytest

from tests.integration import documents


@pytest.mark.timeout(600)
@pytest.mark.parametrize("document", list(documents.DOCUMENTS))
def test_what_a_document_shows_runs(document: str, tmp_path: Path) -> None:
    assert len(documents.blocks(document)) >= 8
    documents.furnish(tmp_path, documents.few(), small=True)
    for ran in documents.run(document, tmp_path):
        assert ran.good, f"{ran.text}\n{ran.output}\n{ran.errors}"
    assert (tmp_path / "runs" / "mine" / "report.html").is_file()


def test_whole_the_command_is_the_reader_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QKV_DATA", raising=False)
    corpora = documents.many()
    documents.furnish(tmp_path, corpora, small=False)
    said = subprocess.run([tmp_path / ".venv/bin/qkv", "train", "--help"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("usage: qkv train")
    assert {path.name for path in tmp_path.glob("*.tsv")} == {f"{name}.tsv" for name in documents.FILES}
    sides = [set(pairs) for pairs in corpora.values()]
    assert sum(map(len, sides)) == len(set().union(*sides)), "no pair is in two files"


def test_the_whole_run_leaves_out_what_takes_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert documents.main(["--max-minutes", "1"]) == 0
    assert capsys.readouterr().out.count("left out") == len(documents.DOCUMENTS)
