"""The doctor's findings for people and for programs: a terminal's table, JSON, one HTML page."""

from collections.abc import Mapping
from html import escape
from typing import Any

from qkv.data.doctor.encoding import UNSEEN
from qkv.data.doctor.examine import BUCKETS, Example, Findings, Tally
from qkv.draw import bars, page, table

WIDEST = 100  # characters of an example on a terminal


def buckets() -> list[str]:
    """The lengths that lines are counted by, in words."""
    upper = [*(str(b - 1) for b in BUCKETS[1:]), ""]
    return [f"{max(low, 1)}-{high}" if high else f"{low}+" for low, high in zip(BUCKETS, upper, strict=True)]


def as_json(found: Findings) -> dict[str, Any]:
    """Everything, as plain values."""
    return {
        "lines": found.lines,
        "kept": found.kept,
        "bytes": found.bytes,
        "seconds": round(found.seconds, 3),
        "languages": list(found.languages),
        "lengths": dict(zip(buckets(), found.by_length, strict=True)),
        "rules": {
            name: {
                "about": f"lines that {tally.about}",
                "drops": not tally.warns,
                "found": tally.found,
                "judged": tally.judged,
                "not_judged": found.lines - tally.judged,
                "by_length": dict(zip(buckets(), tally.by_length, strict=True)),
                "examples": [example._asdict() for example in tally.examples],
            }
            for name, tally in found.tallies.items()
        },
    }


def as_text(found: Findings, *, examples: int = 2) -> str:
    """A table of what was found, an example or two a rule, and what it comes to."""
    lines = [_headline(found), ""]
    speaking = _speaking(found)
    wide = max([len(name) for name in speaking], default=0)
    for name, tally in speaking.items():
        share = tally.found / max(1, found.lines)
        lines.append(
            f"  {name:{wide}}  {tally.found:>9,}  {share:>7.2%}  lines that {tally.about}{_unjudged(found, tally)}"
        )
        for example in tally.examples[:examples]:
            lines.append(f"  {'':{wide}}  {'':>9}  {'':>7}    {_shortly(example)}")
    silent = [name for name, tally in found.tallies.items() if not tally.found]
    if silent:
        lines.append(f"  nothing of: {', '.join(silent)}")
    lines += ["", f"  by words     {'  '.join(f'{b:>8}' for b in buckets())}"]
    lines.append(f"  lines        {'  '.join(f'{n:>8,}' for n in found.by_length)}")
    for name, tally in speaking.items():
        lines.append(f"  {name:12} {'  '.join(f'{n:>8,}' for n in tally.by_length)}")
    return "\n".join(lines)


def as_html(found: Findings, title: str) -> str:
    """One page that can be sent to a colleague."""
    parts = [f"<h1>{escape(title)}</h1>", f"<p class=soft>{escape(_headline(found))}</p>", "<h2>What was found</h2>"]
    rows = [
        [
            name,
            tally.found,
            f"{tally.found / max(1, found.lines):.2%}",
            f"lines that {tally.about}{_unjudged(found, tally)}",
        ]
        for name, tally in found.tallies.items()
    ]
    parts.append(table(["rule", "lines", "share", ""], rows))
    parts += ["<h2>Lines by length, in words</h2>", bars(buckets(), found.by_length)]
    parts.append(table(["rule", *buckets()], [[name, *t.by_length] for name, t in _speaking(found).items()]))
    parts.append("<h2>Examples</h2>")
    for name, tally in _speaking(found).items():
        shown = [[e.line, _visible(e.source), _visible(e.target), e.why] for e in tally.examples]
        body = table(["line", "source", "target", "why"], shown)
        parts.append(f"<details open><summary>{name}: lines that {escape(tally.about)}</summary>{body}</details>")
    return page(title, *parts)


def _headline(found: Findings) -> str:
    first, second = (name or "unknown" for name in found.languages)
    return (
        f"{found.lines:,} lines, {first} to {second}; "
        f"{found.kept:,} without a finding, {found.lines - found.kept:,} with; "
        f"{found.bytes / 1e6:,.1f} MB at {found.rate:.1f} MB/s"
    )


def _speaking(found: Findings) -> Mapping[str, Tally]:
    return {name: tally for name, tally in found.tallies.items() if tally.found}


def _unjudged(found: Findings, tally: Tally) -> str:
    left = found.lines - tally.judged
    return f"; {left:,} lines not judged" if left and tally.judged else ""


def _shortly(example: Example) -> str:
    def cut(text: str) -> str:
        text = _visible(text)
        return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."

    where = f"{example.corpus}, line {example.line:,}"
    return f"{where}: {example.why}" + (f": {cut(example.source)} | {cut(example.target)}" if any(example[2:4]) else "")


def _visible(text: str) -> str:
    """With a sign in place of what would not be seen, or would control the terminal."""
    return UNSEEN.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)
