"""The table of planted faults keeps up with the code: each old text stands exactly once where it is said to."""

from pathlib import Path

import pytest

from tests.mutants.row import Mutant
from tests.mutants.table import MUTANTS

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault.replace(" ", "-"))
def test_a_fault_can_be_planted(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, "the code moved on: bring the row in tests/mutants/table.py up to it"
    assert mutant.new != mutant.old
    if mutant.file.endswith(".py"):  # a C++ fault that does not compile leaves no kernels, which its tests refuse
        compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
    assert mutant.tests and all((ROOT / test).is_file() for test in mutant.tests)


def test_faults_have_names_of_their_own() -> None:
    assert len({mutant.fault for mutant in MUTANTS}) == len(MUTANTS) >= 30
