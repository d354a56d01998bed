"""What the documents tell a reader to type exists: make's targets, the verbs, their flags, the files they name."""

import re
from pathlib import Path

import pytest

from qkv.cli.main import HELP, VERBS
from qkv.cli.options import split_overrides
from tests.cli.usage import flags_of

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


PLACEHOLDER = re.compile(r"NAME|VERB|FAMILY|FILE|NN\b")
OURS = re.compile(
    r"(?<![\w./-])(?:qkv|tests|docs|recipes|benchmarks|scripts|\.ci)/[\w./-]*\w|(?<![\w./-])[\w-]+\.(?:md|toml|txt)\b"
)


def code(text: str) -> list[str]:
    """The lines of fenced blocks and the spans between backticks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [*joined.splitlines(), *spans]


def strangers(line: str) -> list[str]:
    """What a line of shell names that does not exist."""
    line = line.split(" #")[0]
    found = []
    for words in re.findall(r"(?:^|[;&|] *|\$ )make((?: +[\w=.,:/-]+)*)", line):
        found += [
            f"make {word}"
            for word in words.split()
            if not word.startswith("-") and "=" not in word and word not in TARGETS
        ]
    for verb, rest in re.findall(r"(?:^|[;&|] *|\$ |bin/)qkv +([a-z]+)([^|;&>]*)", line):
        if verb not in VERBS:
            found.append(f"qkv {verb}")
            continue
        known = flags_of(verb)
        flags = [word.split("=")[0] for word in split_overrides(rest.split())[0] if word.startswith("--")]
        found += [f"qkv {verb} {flag}" for flag in flags if flag not in known]
    return found


def missing(text: str, folder: Path) -> list[str]:
    """The files and folders that a document names in code, or links to from where it lies, and that are not there."""
    named = {path for line in code(text) for path in OURS.findall(line) if not PLACEHOLDER.search(path)}
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    absent = [path for path in named if not (ROOT / path).exists()]
    return sorted(absent + [link for link in links if link and not (folder / link).exists()])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_exist(document: Path) -> None:
    assert not missing(document.read_text(encoding="utf-8"), document.parent)


def test_a_missing_path_is_found() -> None:
    assert missing("`qkv/nn/absent.py` and `qkv/nn/call.py`", ROOT) == ["qkv/nn/absent.py"]
    assert missing("see `docs/house.md`, `nothing.toml`, `docs/absent/`", ROOT) == ["docs/absent", "nothing.toml"]
    assert missing("```sh\nqkv train --config recipes/absent.yaml --out runs/mine\n```", ROOT) == [
        "recipes/absent.yaml"
    ]
    assert missing("[a](docs/house.md#one-road) [b](house.md) [c](https://semver.org)", ROOT) == ["house.md"]
    assert missing("`qkv/nn/mixers/NAME.py`, `row_NN.py`, `runs/qkv/x.py`, `README.md`", ROOT) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_exist(document: Path) -> None:
    found = {stranger for line in code(document.read_text(encoding="utf-8")) for stranger in strangers(line)}
    assert not found, found


def test_the_help_s_own_example_exists() -> None:
    examples = [line.strip() for line in HELP.split("start here:")[1].split("verbs:")[0].splitlines() if line.strip()]
    assert len(examples) == 3
    assert not [stranger for line in examples for stranger in strangers(line)]


def test_a_stranger_is_found() -> None:
    assert strangers("make nonsense test") == ["make nonsense"]
    assert strangers("make torture ROWS=1,2") == []
    assert strangers("cat x | qkv nonsense --config a") == ["qkv nonsense"]
    assert strangers("$ qkv env --jsno  # one") == ["qkv env --jsno"]
    assert strangers("qkv env --json > out.json") == []


def test_ci_runs_the_checks_and_the_tests() -> None:
    (line,) = [
        line for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines() if line.startswith("make")
    ]
    assert {"check", "test"} <= set(line.split())
    assert strangers(line) == []


def test_the_readme_s_test_command_is_make_test() -> None:
    lines = code((ROOT / "README.md").read_text(encoding="utf-8"))
    assert "make test" in [line.split("#")[0].strip() for line in lines]
    assert {"setup", "test", "check", "format", "coverage", "torture", "mutants"} <= TARGETS
