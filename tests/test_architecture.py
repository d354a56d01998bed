"""The house holds: rooms import only from rooms above them; every file says what it is, stays short, is honestly named.

Imports count wherever they stand: at the top, inside a function, under TYPE_CHECKING. Names looked up through the
registry do not.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

FLOORS: list[set[str]] = [
    {"root"},
    {"metrics"},
    {"data", "nn"},
    {"models"},
    {"decode"},
    {"interop"},
    {"pipeline"},
    {"objectives"},
    {"evaluate"},
    {"explain"},
    {"train"},
    {"compress"},
    {"serve"},
    {"claims"},
    {"cli"},
]
ROOT_MODULES = {
    "errors",
    "registry",
    "shapes",
    "config",
    "random",
    "runtime",
    "tracing",
    "folder",
    "lock",
    "tensors",
    "draw",
    "native",
}
DOORS = {"__init__", "__main__"}  # the package's own entrances, which reach into the house when called

FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

PACKAGE = sorted((ROOT / "qkv").rglob("*.py"))
EVERYTHING = PACKAGE + sorted(path for top in ("tests", "scripts", "benchmarks") for path in (ROOT / top).rglob("*.py"))

LONGEST_FILE, LONGEST_FUNCTION = 400, 70


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of(module: str) -> str:
    """The room of a dotted module name under qkv; names in the package itself belong to the root."""
    first = module.split(".")[1] if "." in module else ""
    return first if first in FLOOR_OF else "root"


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every `qkv...` name that a file imports, with its line, relative imports made absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "qkv")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*parents, base] if base else parents)
            if base.split(".")[0] == "qkv":
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def breaches(source: str, module: str, is_package: bool = False) -> list[str]:
    """The imports of a file that the law forbids."""
    here = room_of(module)
    found = []
    for line, target in imported(ast.parse(source), module, is_package):
        there = room_of(target)
        if here != there and FLOOR_OF[there] >= FLOOR_OF[here]:
            found.append(f"{module}:{line} ({here}) imports {target} ({there})")
    return found


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_rooms_import_only_from_rooms_above() -> None:
    found = []
    for path in PACKAGE:
        if path.parent == ROOT / "qkv" and path.stem in DOORS:
            continue
        found += breaches(path.read_text(encoding="utf-8"), module_name(path), path.stem == "__init__")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "module", "forbidden"),
    [
        ("from qkv.nn import call", "qkv.data.batch", True),
        ("from qkv.data import batch", "qkv.nn.call", True),
        ("from qkv import train", "qkv.models.rnn", True),
        ("import qkv.cli.main", "qkv.runtime", True),
        ("def f():\n    from qkv.serve.api import app", "qkv.train.loop", True),
        ("if TYPE_CHECKING:\n    from qkv.models.rnn import Rnn", "qkv.decode.search", False),
        ("if TYPE_CHECKING:\n    from qkv.train.loop import Loop", "qkv.decode.search", True),
        ("from ..train import loop", "qkv.decode.search", True),
        ("from ...train import loop", "qkv.nn.mixers.conv", True),
        ("from .call import Call", "qkv.nn.stacks", False),
        ("from qkv import errors, __version__", "qkv.cli.env", False),
        ("from qkv.errors import QkvError", "qkv.metrics.text", False),
    ],
)
def test_the_law_is_read_as_meant(source: str, module: str, forbidden: bool) -> None:
    assert bool(breaches(source, module)) is forbidden


def test_every_room_is_on_the_plan() -> None:
    rooms = {path.name for path in (ROOT / "qkv").iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert rooms <= set(FLOOR_OF), f"rooms without a floor: {rooms - set(FLOOR_OF)}"
    modules = {path.stem for path in (ROOT / "qkv").glob("*.py")}
    assert modules <= ROOT_MODULES | DOORS, f"give these a room: {modules - ROOT_MODULES - DOORS}"


def test_the_document_shows_the_same_plan() -> None:
    shown = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "house.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(shown) == len(set(shown))
    floors = [FLOOR_OF[room] for room in shown]
    assert set(shown) == set(FLOOR_OF)
    assert floors == sorted(floors)


def test_every_file_says_what_it_is() -> None:
    silent = [named(path) for path in EVERYTHING if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert not silent, silent


def test_no_file_is_named_for_nothing() -> None:
    vague = {"utils", "util", "common", "helpers", "misc"}
    assert not [named(path) for path in EVERYTHING if vague & set(path.relative_to(ROOT).with_suffix("").parts)]


def test_files_hold_one_idea() -> None:
    long = {named(path): n for path in EVERYTHING if (n := len(path.read_text("utf-8").splitlines())) > LONGEST_FILE}
    assert not long, long


def test_functions_fit_a_screen() -> None:
    long = [
        f"{named(path)}:{node.lineno} {node.name}"
        for path in EVERYTHING
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    ]
    assert not long, long


def test_nothing_is_put_off() -> None:
    marks = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
    assert not [named(path) for path in EVERYTHING if marks.search(path.read_text(encoding="utf-8"))]
