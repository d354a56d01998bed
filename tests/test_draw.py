"""Pages that stand alone, and charts that say their numbers."""

from xml.etree import ElementTree

import pytest

from qkv.draw import bars, curves, heat, intervals, page, short, table


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


def test_a_curve_stays_within_its_picture() -> None:
    nan = float("nan")
    drawn = curves("a < b", {"one": [(0, 5.0), (1, nan), (10, -5.0)], "two": [(2, 3.0)]})
    svg = ElementTree.fromstring(drawn[drawn.index("<svg") : drawn.index("</svg>") + 6])
    width, height = map(float, svg.attrib["viewBox"].split()[2:])
    lines = [[tuple(map(float, p.split(","))) for p in line.attrib["points"].split()] for line in svg.iter("polyline")]
    assert [len(line) for line in lines] == [2, 2]
    assert all(0 <= x <= width and 0 <= y <= height for line in lines for x, y in line)
    assert lines[0][0][1] < lines[0][1][1], "up is more"
    assert "a &lt; b" in drawn
    assert curves("nothing", {"one": []}) == ""


def test_a_level_curve_is_drawn() -> None:
    assert "nan" not in curves("level", {"one": [(1, 2.0), (2, 2.0)]})


def test_intervals_reach_from_low_to_high() -> None:
    svg = ElementTree.fromstring(intervals(["a", "b"], [(1.0, 2.0, 4.0), (0.0, 0.0, 0.0)]))
    line = next(iter(svg.iter("line")))
    assert float(line.attrib["y1"]) > float(line.attrib["y2"])
    assert len(list(svg.iter("rect"))) == 2


def test_a_heat_map_has_a_cell_for_each_number() -> None:
    svg = ElementTree.fromstring(heat(["<x>", "y"], ["a", "b", "c"], [[0.0, 0.5, 2.0], [1.0, 0.0, 0.0]]))
    shades = [float(rect.attrib["opacity"]) for rect in svg.iter("rect")]
    assert shades == pytest.approx([0.04, 0.52, 1.0, 1.0, 0.04, 0.04])
    assert [t.text for t in svg.iter("text")] == ["a", "b", "c", "<x>", "y"]


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (1234.5, "1,234"), (0.00123, "1.2e-3"), (3.14159, "3.14"), (2e7, "2.0e7")]
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert short(value) == shown
