"""Pages and pictures of our own: one self-contained HTML file, light and dark, wide and narrow, and small SVG charts.

No script, no address, nothing fetched: a page can be mailed. Every text goes through `escape`.
"""

from collections.abc import Sequence
from html import escape

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
th { color: var(--soft); font-weight: 500 } td.number, th.number { text-align: right }
details { border: 1px solid var(--line); border-radius: .5rem; background: var(--card); padding: .5rem .8rem;
  margin: .5rem 0 }
summary { cursor: pointer; font-weight: 500 } code, pre { font: .875em/1.5 ui-monospace, monospace }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .7rem; overflow-x: auto }
svg { max-width: 100%; height: auto } svg text { fill: var(--soft); font: 12px system-ui, sans-serif }
.bar { fill: var(--one) } .axis { stroke: var(--line) }
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


def bars(labels: Sequence[str], values: Sequence[int | float], *, width: int = 560, height: int = 150) -> str:
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


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if value % 1 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
