"""What every test runs under: one thread, fixed seeds, no unlisted skip, and annotations of qkv checked as it runs.

Annotations, shapes included, are executed by jaxtyping and beartype; `QKV_TYPECHECK=0` switches that off.
"""

import os
import random
import sys

# Before anything imports torch: it reads these once.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"

import hypothesis
import pytest

from tests.skips import (  # noqa: F401 (hooks: pytest finds them by their names)
    pytest_collectreport,
    pytest_runtest_logreport,
    pytest_sessionfinish,
    pytest_terminal_summary,
)

if os.environ.get("QKV_TYPECHECK", "1") != "0":
    from jaxtyping import install_import_hook

    install_import_hook("qkv", "beartype.beartype")

hypothesis.settings.register_profile("house", derandomize=True, deadline=None, database=None, max_examples=50)
hypothesis.settings.load_profile("house")


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The same global random numbers for each test, whatever ran before it."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
