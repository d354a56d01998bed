"""The guides' examples run: each is taken out of its document, put into the registry, and held to what the guide says.

A guide's first Python block is the example; the second is its row for the conformance tests, or the test it asks for.
"""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from qkv import registry
from tests.conformance import expected, test_mixer_precision, test_mixer_states, test_mixers, test_model_states
from tests.conformance import test_models as models
from tests.conformance.cases import Case
from tests.conformance.networks import Network

DOCS = Path(__file__).resolve().parent.parent / "docs"


def blocks(guide: str) -> list[str]:
    found = re.findall(r"^```python\n(.*?)^```", (DOCS / guide).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(found) == 2, f"{guide} holds {len(found)} blocks of Python, not an example and what comes with it"
    return found


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts an example where the registry finds it, and its row into the table of what is expected."""

    def install(kind: str, name: str, found: str, table: dict[str, Any], example: str, row: str) -> None:
        module = f"guide_to_{name}"
        (tmp_path / f"{module}.py").write_text(example, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.setitem(registry.TABLE[kind], name, f"{module}:{found}")
        rows = eval("{" + row + "}", dict(vars(expected)))
        assert list(rows) == [name]
        monkeypatch.setitem(table, name, rows[name])

    return install


def test_the_guide_s_mixer_does_what_it_declares(installed: Any) -> None:
    installed("mixer", "average", "Average", expected.MIXERS, *blocks("add-a-mixer.md"))
    assert registry.find("mixer", "average").can == expected.MIXERS["average"].can
    for variant in expected.MIXERS["average"].variants:
        case = Case("average", variant)
        test_mixers.test_shapes_and_gradients_reach_every_parameter(case)
        test_mixers.test_nothing_leaks_from_the_future(case)
        test_mixers.test_bidirectional_ones_look_ahead_and_back(case)
        test_mixers.test_real_positions_do_not_feel_the_padded_ones(case)
        test_mixer_states.test_pieces_equal_the_whole(case)
        test_mixer_states.test_rows_reorder_leave_and_are_repeated(case)
        test_mixer_states.test_younger_and_older_rows_come_in(case)
        test_mixer_states.test_every_tensor_is_counted_and_has_a_row_for_each(case)
        test_mixer_precision.test_bf16_is_near(case)
        test_mixer_precision.test_variants_read_back_as_themselves(case)


def test_the_guide_s_model_answers_its_protocols(installed: Any) -> None:
    installed("model", "convolutional", "convolutional", expected.MODELS, *blocks("add-a-model.md"))
    network = Network("convolutional", "plain")
    models.test_it_answers_the_protocols_it_should(network)
    models.test_shapes_and_gradients_reach_every_parameter(network)
    models.test_the_future_is_not_seen(network)
    models.test_padding_of_source_and_target_changes_nothing(network)
    models.test_packed_pairs_equal_each_alone(network)
    models.test_dropout_reaches_every_place(network)
    models.test_a_variant_reads_back_as_itself(network)
    models.test_a_preset_builds("convolutional", "small")
    test_model_states.test_pieces_equal_the_whole(network)
    test_model_states.test_rows_reorder_within_their_group_leave_and_come_in(network)
    test_model_states.test_rewinding_where_it_can(network)


def test_the_guide_s_objective_adds_up_over_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example, test = blocks("add-an-objective.md")
    (tmp_path / "guide_to_per_sentence.py").write_text(example, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "guide_to_per_sentence", raising=False)
    names: dict[str, Any] = {}
    exec(test.replace("qkv.objectives.per_sentence", "guide_to_per_sentence"), names)
    names["test_parts_add_up_to_the_whole"]()


@pytest.mark.parametrize(
    ("guide", "kind", "name"),
    [
        ("add-a-mixer.md", "mixer", "average"),
        ("add-a-model.md", "model", "convolutional"),
        ("add-an-objective.md", "objective", "per_sentence"),
    ],
)
def test_the_line_for_the_registry_names_the_example(guide: str, kind: str, name: str) -> None:
    text = (DOCS / guide).read_text(encoding="utf-8")
    (target,) = re.findall(rf'under `"{kind}"`: `"{name}": "([\w.:]+)",`', text)
    module, found = target.split(":")
    assert re.search(rf"^(class|def) {found}\(", blocks(guide)[0], re.MULTILINE)
    assert module.startswith(f"qkv.{'nn.mixers' if kind == 'mixer' else kind + 's'}.")
