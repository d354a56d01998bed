"""The demo's own pieces: a corpus of the user's is split without leaks, and the baselines are what they say."""

from pathlib import Path

import pytest

from qkv.data.doctor.rules import key_of as key
from scripts import demo


def test_a_corpus_of_the_user_s_is_split_without_leaks(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    lines = [f"source {i // 2}\ttarget {i // 3}" for i in range(3000)] + ["\tx", "cut"]
    path.write_text("\n".join(lines) + "\n")
    train, dev, test = demo._own(path)
    assert (len(dev), len(test)) == (100, 100)
    held = {key(side) for pair in dev + test for side in pair}
    assert not held & {key(side) for pair in train for side in pair}
    assert len(train) > 1000
    assert demo._own(path) == (train, dev, test)


def test_too_few_pairs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\n")
    with pytest.raises(SystemExit, match="1 different pairs; a first model wants at least 1,000"):
        demo._own(path)


def test_the_nearest_neighbour_remembers() -> None:
    train = [("Turn on the light", "Licht einschalten"), ("Turn off the fan", "Ventilator aus"), ("Save", "Speichern")]
    assert demo.nearest(["turn the fan", "SAVE!", "nothing known"], train) == [
        "Ventilator aus",
        "Speichern",
        "nothing known",
    ]


def test_without_a_network_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(folder: Path) -> dict[str, Path]:
        raise ConnectionError("no route")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "fetch", refused)
    monkeypatch.setattr("sys.argv", ["demo"])
    assert demo.main() == 2
    told = capsys.readouterr().err
    assert "no route" in told
    assert "make demo CORPUS=pairs.tsv" in told


@pytest.mark.parametrize("words", [["--corpus", "nowhere.tsv"], ["--minutes", "0"]])
def test_mistakes(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["demo", *words])
    with pytest.raises(SystemExit) as left:
        demo.main()
    assert left.value.code == 2
    assert "no such file" in (told := capsys.readouterr().err) or "needs at least 1" in told
