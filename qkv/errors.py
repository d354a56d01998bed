"""What a user did, in one sentence: the value, the limit and the remedy. A broken invariant of ours asserts instead.

The command line prints the sentence on stderr and exits with code 2; no traceback. All of it is raised on purpose.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class QkvError(Exception):
    """The base of every mistake that a user can mend."""


class ConfigError(QkvError):
    """A setting: unknown, of the wrong type, out of bounds, or at odds with another."""


class DataError(QkvError):
    """Text or shards: missing, misaligned, empty, not UTF-8."""


class BundleError(QkvError):
    """A model folder or a checkpoint: missing, damaged, from elsewhere."""


class RunError(QkvError):
    """The machine or the run's folder: no space, no permission, taken by another run, diverged."""


def nearest(word: str, known: Iterable[str]) -> str:
    """` did you mean "x"?` or the list of what is known when nothing is near."""
    known = sorted(known)
    close = get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f'did you mean "{close[0]}"?'
    return f"known: {', '.join(known)}" if known else "nothing is known here"
