"""What is prepared is what went in, counted; it is made once, whole or not at all, in bounded memory."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from qkv.data.prepare import Meter, Prepared, Progress, Trained, on_stderr, prepare
from qkv.data.shards import Shards
from qkv.data.sources import ParallelText
from qkv.data.tokenizers.base import Tokenizer
from qkv.errors import DataError
from tests.data.letters import Letters

PAIRS = [("ab", "xyz"), ("b a", "zz"), ("a" * 9, "x"), ("c", "zyx")]


def written(folder: Path, pairs: list[tuple[str, str]], name: str = "train", weight: float = 1.0) -> ParallelText:
    path = folder / f"{name}.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return ParallelText(path, weight=weight)


class Counting:
    """A recipe that counts how often it was used."""

    def __init__(self, dropout: float = 0.0) -> None:
        self.dropout, self.calls = dropout, 0

    def train(self, texts: Iterable[str]) -> Tokenizer:
        self.calls += 1
        return Letters.train(texts, self.dropout)

    def fingerprint(self) -> str:
        return f"letters {self.dropout}"


def done(
    folder: Path, *texts: ParallelText, recipe: Counting | None = None, joint: bool = True, **more: int
) -> Prepared:
    dev = written(folder, [("a", "x"), ("q", "y")], "dev")
    limit = more.get("max_length", 8)
    made = recipe or Counting()
    return prepare(texts, dev, tokenizer=made, joint=joint, max_length=limit, cache=folder / "cache")


def test_pairs_are_stored_and_counted(tmp_path: Path) -> None:
    prepared = done(tmp_path, written(tmp_path, PAIRS))
    shards = Shards(prepared.train)
    letters = Letters.train("".join(pair) for pair in PAIRS)
    flat, sizes = shards.ids("source", np.array([2, 0]))
    assert letters.decode([part.tolist() for part in np.split(flat, sizes.cumsum()[:-1])]) == ["c", "ab"]
    assert prepared.counts["train"] == {
        "pairs": 3,
        "too_long": 1,
        "empty": 0,
        "source_tokens": 3 + 3 + 2,
        "target_tokens": 4 + 3 + 4,
        "source_unknown": 0,
        "target_unknown": 0,
    }
    assert prepared.counts["dev"]["source_unknown"] == 1
    assert prepared.counts["train_read"]["kept"] == 4
    assert prepared.tokenizers["source"] == prepared.tokenizers["target"]
    assert (prepared.tokenizers["source"] / "tokenizer.json").is_file()
    assert prepared.dev is not None and len(Shards(prepared.dev)) == 2


def test_the_limit_counts_tokens_and_one_mark(tmp_path: Path) -> None:
    corpus = written(tmp_path, PAIRS)
    assert done(tmp_path, corpus, max_length=10).counts["train"]["too_long"] == 0
    assert done(tmp_path, corpus, max_length=9).counts["train"]["too_long"] == 1


def test_separate_tokenizers_see_their_own_side(tmp_path: Path) -> None:
    prepared = done(tmp_path, written(tmp_path, PAIRS), joint=False)
    documents = {side: (path / "tokenizer.json").read_text() for side, path in prepared.tokenizers.items()}
    assert '"c"' in documents["source"] and '"z"' not in documents["source"]
    assert '"z"' in documents["target"] and '"c"' not in documents["target"]
    assert prepared.tokenizers["target"].name == "target"


def test_corpora_keep_their_sizes_and_weights(tmp_path: Path) -> None:
    prepared = done(tmp_path, written(tmp_path, PAIRS), written(tmp_path, PAIRS[:2], "more", weight=3.0))
    assert Shards(prepared.train).index.sizes == [3, 2]
    assert prepared.weights == (1.0, 3.0)


def test_text_is_kept_for_dropout_in_training_only(tmp_path: Path) -> None:
    prepared = done(tmp_path, written(tmp_path, PAIRS), recipe=Counting(dropout=0.1))
    assert Shards(prepared.train).texts("source", np.array([1])) == ["b a"]
    assert prepared.dev is not None and not Shards(prepared.dev).index.sides["source"].text


def test_it_is_made_once(tmp_path: Path) -> None:
    recipe = Counting()
    first = done(tmp_path, written(tmp_path, PAIRS), recipe=recipe)
    again = done(tmp_path, written(tmp_path, PAIRS, weight=2.0), recipe=recipe)
    assert recipe.calls == 1
    assert (again.folder, again.counts, again.weights) == (first.folder, first.counts, (2.0,))


def test_whatever_went_in_changes_the_key(tmp_path: Path) -> None:
    corpus = written(tmp_path, PAIRS)
    folders = {
        done(tmp_path, corpus).folder,
        done(tmp_path, corpus, joint=False).folder,
        done(tmp_path, corpus, max_length=20).folder,
        done(tmp_path, corpus, recipe=Counting(0.5)).folder,
        done(tmp_path, written(tmp_path, PAIRS[:3], "other")).folder,
    }
    assert len(folders) == 5


def test_a_function_with_its_options_is_a_recipe() -> None:
    def build(texts: Iterable[str]) -> Tokenizer:
        return Letters.train(texts)

    recipe = Trained(build, {"name": "letters", "size": 3})
    assert recipe.train(["b", "a"]).encode(["ab"]) == [[4, 5]]
    assert recipe.fingerprint() == Trained(build, {"size": 3, "name": "letters"}).fingerprint()
    assert recipe.fingerprint() != Trained(build, {"name": "letters", "size": 4}).fingerprint()


def test_two_at_once_share_the_work(tmp_path: Path) -> None:
    corpus, recipe = written(tmp_path, PAIRS), Counting()
    done(tmp_path, corpus, recipe=Counting(0.9))  # so that both find the dev file written
    results: list[Path] = []
    threads = [
        threading.Thread(target=lambda: results.append(done(tmp_path, corpus, recipe=recipe).folder)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recipe.calls == 1 and len(set(results)) == 1 and len(results) == 2


KILLED = """
import os, signal, sys
from pathlib import Path
from qkv.data.prepare import prepare
from qkv.data.sources import ParallelText
from tests.data.letters import Letters

class Dies:
    def train(self, texts):
        made = Letters.train(texts)
        made.encode = lambda texts: os.kill(os.getpid(), signal.SIGKILL)
        return made
    def fingerprint(self):
        return "letters 0.0"

folder = Path(sys.argv[1])
prepare([ParallelText(folder / "train.tsv")], ParallelText(folder / "dev.tsv"),
        tokenizer=Dies(), joint=True, max_length=8, cache=folder / "cache")
"""


def test_a_killed_preparation_leaves_nothing_that_counts(tmp_path: Path) -> None:
    corpus = written(tmp_path, PAIRS)
    written(tmp_path, [("a", "x"), ("q", "y")], "dev")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], env={**os.environ, "PYTHONPATH": ":".join(sys.path)}
    )
    assert killed.returncode == -signal.SIGKILL
    left = list((tmp_path / "cache").iterdir())
    assert left and all(path.name.startswith(".") for path in left)
    prepared = done(tmp_path, corpus)
    assert prepared.counts["train"]["pairs"] == 3
    assert not list((tmp_path / "cache").glob(".*.partial"))


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="0 pairs left of 4; 4 are longer than max_length 1"):
        done(tmp_path, written(tmp_path, PAIRS), max_length=1)
    assert [path.name for path in (tmp_path / "cache").iterdir() if not path.name.endswith(".lock")] == []


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    prepared = done(tmp_path, written(tmp_path, PAIRS))
    path = prepared.train / "00000.source.ids"
    path.write_bytes(b"\1" * path.stat().st_size)
    assert Prepared.open(prepared.folder).counts == prepared.counts
    with pytest.raises(DataError, match=r"00000.source.ids is damaged"):
        Prepared.open(prepared.folder, verify=True)
    with (prepared.tokenizers["source"] / "tokenizer.json").open("a") as file:
        file.write(" ")
    with pytest.raises(DataError, match=r"tokenizer.json is damaged.* prepare it again"):
        Prepared.open(prepared.folder)
    with pytest.raises(DataError, match="holds no prepared data"):
        Prepared.open(tmp_path)


def test_progress_tells_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    on_stderr(Progress("encoding train", 1500, 0.5, 6000))
    assert capsys.readouterr().err == "qkv: encoding train: 1,500 of 6,000 pairs, 3,000 a second, 2 s left\n"
    assert Progress("reading", 10, 0.0).left is None


def test_every_stage_reports_its_exact_end(tmp_path: Path) -> None:
    said: list[Progress] = []
    corpus = written(tmp_path, PAIRS)
    prepare([corpus], None, tokenizer=Counting(), joint=False, max_length=8, cache=tmp_path, progress=said.append)
    ends = {said.stage: (said.pairs, said.total) for said in said}
    assert ends == {
        "training a source tokenizer": (4, None),
        "training a target tokenizer": (4, 4),
        "encoding train": (4, 4),
    }


def test_a_meter_reports_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.data.prepare.REPORT_SECONDS", -1.0)
    said: list[Progress] = []
    from qkv.data.sources import Pair

    assert sum(1 for _ in Meter("reading", None, said.append).through([Pair("a", "b")] * 3000)) == 3000
    assert [progress.pairs for progress in said] == [1024, 2048]
