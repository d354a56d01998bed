"""Pages and pictures of our own: one self-contained HTML file, light and dark, wide and narrow, and small SVG charts.

No script, no address, nothing fetched: a page can be mailed. Every text goes through `escape`.
"""

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite

Number = int | float

STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --soft: #5c6577; --line: #d9dee7; --page: #fff; --card: #f6f8fb;
  --one: #2f6fde; --two: #d9822b; --good: #23804a; --bad: #b3372f }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9f0; --soft: #9aa4b6; --line: #333b4a; --page: #14181f;
  --card: #1c222c; --one: #6ea0ff; --two: #f0a860; --good: #5cc98a; --bad: #f08a80 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 68rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .25rem } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem }
.soft { color: var(--soft) } .good { color: var(--good) } .bad { color: var(--bad) }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
th { color: var(--soft); font-weight: 500 } td.number, th.number { text-align: right; white-space: nowrap }
details { border: 1px solid var(--line); border-radius: .5rem; background: var(--card); padding: .5rem .8rem;
  margin: .5rem 0 }
summary { cursor: pointer; font-weight: 500 } code, pre { font: .875em/1.5 ui-monospace, monospace }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .7rem; overflow-x: auto }
svg { max-width: 100%; height: auto } svg text { fill: var(--soft); font: 12px system-ui, sans-serif }
.bar { fill: var(--one) } .axis { stroke: var(--line) } .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round }
.one { stroke: var(--one) } .two { stroke: var(--two); stroke-dasharray: 5 3 } .spread { stroke: var(--ink) }
.cell { fill: var(--one) }
.grid { display: grid; gap: 1rem 1.5rem; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)) }
figure { margin: 0 } figcaption { font-weight: 500; margin-bottom: .2rem }
"""


def page(title: str, *parts: str) -> str:
    """A whole document."""
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows of texts and numbers; numbers stand to the right, and so do their heads."""
    right = [bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(head))]

    def line(tag: str, cells: Sequence[object]) -> str:
        made = (
            f"<{tag}{' class=number' if is_number else ''}>{_cell(value)}</{tag}>"
            for value, is_number in zip(cells, right, strict=True)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = "\n".join(line("td", row) for row in rows)
    return f"<div class=scroll><table>\n{line('th', head)}\n{body}\n</table></div>"


def bars(labels: Sequence[str], values: Sequence[Number], *, width: int = 560, height: int = 150) -> str:
    """An upright bar for each value, its number above it."""
    most, room = max([*values, 1e-12]), width / max(1, len(values))
    parts = [f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">']
    for i, (label, value) in enumerate(zip(labels, values, strict=True)):
        tall = (height - 40) * value / most
        x, y = i * room + room * 0.15, height - 20 - tall
        middle = i * room + room / 2
        parts.append(
            f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{room * 0.7:.1f}" height="{tall:.1f}" rx="2" />'
        )
        parts.append(f'<text x="{middle:.1f}" y="{y - 4:.1f}" text-anchor="middle">{_cell(value)}</text>')
        parts.append(f'<text x="{middle:.1f}" y="{height - 5}" text-anchor="middle">{escape(label)}</text>')
    parts.append(f'<line class="axis" x1="0" x2="{width}" y1="{height - 20}" y2="{height - 20}" /></svg>')
    return "".join(parts)


def curves(
    title: str,
    lines: Mapping[str, Sequence[tuple[Number, Number]]],
    *,
    width: int = 460,
    height: int = 220,
    floor: Number | None = None,
) -> str:
    """At most two lines over one axis, the second dashed; points that are no numbers are left out."""
    good = {name: [(x, y) for x, y in points if isfinite(x) and isfinite(y)] for name, points in lines.items()}
    every = [point for points in good.values() for point in points]
    if not every:
        return ""
    left, bottom, top = 52, height - 24, 10
    xs, ys = [x for x, _ in every], [y for _, y in every]
    low, high = (min(ys) if floor is None else min(floor, *ys)), max(ys)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    first, last = min(xs), max(max(xs), min(xs) + 1e-9)

    def place(x: Number, y: Number) -> str:
        across = left + (width - left - 8) * (x - first) / (last - first)
        return f"{across:.1f},{bottom - (bottom - top) * (y - low) / (high - low):.1f}"

    parts = [f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{escape(title)}">']
    for step in range(5):
        value = low + (high - low) * step / 4
        y = bottom - (bottom - top) * step / 4
        parts.append(f'<line class="axis" x1="{left}" x2="{width - 8}" y1="{y:.1f}" y2="{y:.1f}" />')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>')
    for step in range(5):
        x = left + (width - left - 8) * step / 4
        anchor = ("start", "middle", "middle", "middle", "end")[step]
        mark = short(first + (last - first) * step / 4)
        parts.append(f'<text x="{x:.1f}" y="{height - 6}" text-anchor="{anchor}">{mark}</text>')
    for kind, points in zip(("one", "two"), good.values(), strict=False):
        if len(points) == 1:
            points = [*points, *points]
        parts.append(f'<polyline class="curve {kind}" points="{" ".join(place(x, y) for x, y in points)}" />')
    parts.append("</svg>")
    names = f" <span class=soft>{escape(', '.join(_legend(good)))}</span>" if len(good) > 1 else ""
    return f"<figure><figcaption>{escape(title)}{names}</figcaption>{''.join(parts)}</figure>"


def intervals(labels: Sequence[str], values: Sequence[tuple[Number, Number, Number]], *, width: int = 460) -> str:
    """A bar for each (low, value, high), and a line from low to high on it."""
    height, most = 190, max([high for _, _, high in values] + [1e-12])
    room, tall = width / max(1, len(values)), 190 - 44
    parts = [f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">']
    for i, (label, (low, value, high)) in enumerate(zip(labels, values, strict=True)):
        x, bottom = i * room, height - 22
        top, middle = bottom - tall * value / most, i * room + room / 2
        parts.append(
            f'<rect class="bar" x="{x + room * 0.2:.1f}" y="{top:.1f}" width="{room * 0.6:.1f}" '
            f'height="{bottom - top:.1f}" rx="2" opacity=".8" />'
        )
        ends = (bottom - tall * low / most, bottom - tall * high / most)
        parts.append(
            f'<line class="spread" x1="{middle:.1f}" x2="{middle:.1f}" y1="{ends[0]:.1f}" y2="{ends[1]:.1f}" />'
        )
        parts.append(f'<text x="{middle:.1f}" y="{ends[1] - 5:.1f}" text-anchor="middle">{value:.1f}</text>')
        parts.append(f'<text x="{middle:.1f}" y="{height - 6}" text-anchor="middle">{escape(label)}</text>')
    return "".join([*parts, "</svg>"])


def heat(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[Number]]) -> str:
    """A matrix of shares between 0 and 1: rows to the left, columns slanted above them."""
    size, left, top = 22, 16 + 7 * max(map(len, [*rows, ""])), 16 + 5 * max(map(len, [*columns, ""]))
    width, height = left + size * len(columns) + 40, top + size * len(rows) + 4
    parts = [f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">']
    for j, label in enumerate(columns):
        x, y = left + size * j + size / 2, top - 6
        parts.append(f'<text x="{x:.0f}" y="{y}" transform="rotate(-50 {x:.0f} {y})">{escape(label)}</text>')
    for i, (label, row) in enumerate(zip(rows, values, strict=True)):
        y = top + size * i
        parts.append(f'<text x="{left - 6}" y="{y + 15}" text-anchor="end">{escape(label)}</text>')
        for j, value in enumerate(row):
            shade = 0.04 + 0.96 * min(1.0, max(0.0, value))
            said = f"<title>{escape(label)} - {escape(columns[j])}: {value:.2f}</title>"
            parts.append(
                f'<rect class="cell" x="{left + size * j}" y="{y}" width="{size - 1}" height="{size - 1}" '
                f'opacity="{shade:.3f}">{said}</rect>'
            )
    return "".join([*parts, "</svg>"])


def short(value: Number) -> str:
    """A number of few characters."""
    if value and not 1e-2 <= abs(value) < 1e5:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _legend(lines: Mapping[str, object]) -> list[str]:
    return [f"{name} {mark}" for mark, name in zip(("\u2014", "- -"), lines, strict=False)]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if value % 1 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
