"""An even sample of a stream whose length nobody knows, in bounded memory and the same each time.

Text n is in as long as its hash ends in enough zero bits; each time the budget is passed, one bit more is asked for.
A hash, and not every second text: streams that alternate between two languages would lose one of them.
"""

from collections.abc import Iterable

from qkv.data.tokenizers.dropout import mixed


def even_sample(texts: Iterable[str], budget: int) -> list[str]:
    """All texts in order if they take at most `budget` bytes of UTF-8, else a half, a quarter ... spread evenly."""
    kept: list[tuple[int, int, str]] = []
    taken, mask = 0, 0
    for number, text in enumerate(texts):
        hashed = mixed(number)
        if hashed & mask:
            continue
        size = len(text.encode("utf-8", "surrogatepass"))
        kept.append((hashed, size, text))
        taken += size
        while taken > budget and len(kept) > 1:
            mask = 2 * mask + 1
            kept = [entry for entry in kept if not entry[0] & mask]
            taken = sum(size for _, size, _ in kept)
    return [text for _, _, text in kept]
