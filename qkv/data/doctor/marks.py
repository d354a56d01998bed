"""What must stand on both sides of a translation: numbers, and what software fills in or leaves as it is.

A number is its digits: 1,000.5 and 1.000,5 are the same one, and so are 5 and 05. Numbers that people write as words
may be missing on one side.
"""

import re
from collections import Counter

NUMBER = re.compile(r"\d{1,3}(?:[ \u00a0\u202f'’]\d{3})+(?!\d)|\d+(?:[.,:]\d+)*")
SEPARATOR = re.compile(r"[.,: \u00a0\u202f'’]")
SPOKEN = {0, *range(1, 21), *range(30, 101, 10), 1_000, 1_000_000}

_NAME = r"[A-Za-z_][\w.-]*"
PLACEHOLDER = re.compile(
    r"\{\{[^{}]{0,60}\}\}|\$?\{[\w.:!\[\]-]{0,60}\}"  # {name}, {0:.2f}, {{ name }}, ${name}
    r"|%\([^()\s]{1,60}\)[sdifu]"  # %(name)s
    r"|(?<![\d%])%(?:\d+\$)?[sdiu@](?![A-Za-z])|(?<![\d%])%\.?\d*f(?![A-Za-z])"  # %s, %1$d, %.2f
    rf"|</?{_NAME}(?:\s[^<>]{{0,200}})?/?>"  # <b>, </b>, <br/>
    r"|&(?:[a-zA-Z]{2,8}|#\d{1,6});"  # &nbsp;
    r"|https?://[^\s<>\"]*[\w/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # addresses of pages and people
)


def numbers(text: str) -> "Counter[str]":
    """The numbers of a text by their digits."""
    found: Counter[str] = Counter()
    for match in NUMBER.findall(text):
        groups = SEPARATOR.split(match)
        if len(groups) == 2 and not groups[1].strip("0") and len(groups[1]) < 3:
            groups.pop()  # 2.00 is 2
        grouped = len(groups) < 3 or all(len(group) == 3 for group in groups[1:])
        # 1.000.000 and 3.5 are one number; 24.12.2018 is three.
        for digits in ["".join(groups)] if grouped else groups:
            found[digits.lstrip("0") or "0" if len(groups) == 1 or not grouped else digits] += 1
    return found


def numbers_disagree(source: str, target: str) -> str | None:
    """Which numbers one side lacks; None where both agree as far as people write numbers."""
    if not (any(map(str.isdigit, source)) or any(map(str.isdigit, target))):
        return None
    mine, theirs = numbers(source), numbers(target)
    left, right = list((mine - theirs).elements()), list((theirs - mine).elements())
    for number in list(left):  # 17 o'clock and 5 pm
        clock = {str(value) for value in (int(number) + 12, int(number) - 12)} if len(number) < 3 else set()
        if match := next((other for other in right if other in clock), None):
            left.remove(number)
            right.remove(match)
    if not (left and right):
        left, right = ([n for n in side if int(n) not in SPOKEN] for side in (left, right))
    if not (left or right):
        return None
    return f"{', '.join(left) or 'no number'} against {', '.join(right) or 'no number'}"


def placeholders(text: str) -> "Counter[str]":
    """What software fills in or leaves as it is, each as it is written but for white space."""
    return Counter("".join(match.split()) for match in PLACEHOLDER.findall(text))


def placeholders_disagree(source: str, target: str) -> str | None:
    """Which placeholders one side lacks."""
    mine, theirs = placeholders(source), placeholders(target)
    if mine == theirs:
        return None
    left, right = (", ".join((a - b).elements()) or "nothing" for a, b in ((mine, theirs), (theirs, mine)))
    return f"{left} against {right}"
