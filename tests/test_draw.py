"""Pages that stand alone, and charts that say their numbers."""

from xml.etree import ElementTree

import pytest

from qkv.draw import bars, page, table


def test_a_page_fetches_nothing_and_runs_nothing() -> None:
    made = page("A & B", "<p>text</p>")
    assert "<title>A &amp; B</title>" in made
    for foreign in ("http", "<script", "<link", "url(", "@import"):
        assert foreign not in made


def test_numbers_stand_to_the_right() -> None:
    made = table(["name", "count"], [["<a>", 1200], ["b", 2.5]])
    assert "<td>&lt;a&gt;</td><td class=number>1,200</td>" in made
    assert "<td class=number>2.50</td>" in made
    assert "<th class=number>count</th>" in made


@pytest.mark.parametrize("values", [[1, 2, 3], [0, 0], [5], []])
def test_bars_are_as_tall_as_their_numbers(values: list[int]) -> None:
    made = bars([f"<{v}" for v in values], values)
    drawn = ElementTree.fromstring(made)
    tall = [float(rect.attrib["height"]) for rect in drawn.iter("rect")]
    assert len(tall) == len(values)
    if any(values):
        assert tall == pytest.approx([max(tall) * v / max(values) for v in values], abs=0.1)
    assert [t.text for t in drawn.iter("text")] == [s for v in values for s in (str(v), f"<{v}")]
