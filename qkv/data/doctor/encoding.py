"""Text that was once decoded wrongly, and characters that no reader sees."""

import re

# What the bytes 0x80 to 0xBF look like when UTF-8 was read as Windows-1252 or Latin-1.
_CP1252 = "".join(bytes([b]).decode("cp1252", "ignore") for b in range(0x80, 0xC0))
_AGAIN = re.compile(f"[\u00c2-\u00f4][{re.escape(_CP1252)}\u0080-\u00bf]{{1,3}}")
_RARE = re.compile("[\u0250-\u036f\u0700-\u08ff]")  # scripts in which "ß“" would have meant a letter: it means itself
_LOST = re.compile("\ufffd|[^\\W\\d_]\\?[^\\W\\d_]")
# Tabs and feeds within a line, C0, C1, zero-width and direction-changing characters, tags; joiners and marks that some
# scripts need are not here.
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2028\u2029\u2060-\u206f\ufeff\ufff9-\ufffc\U000e0000-\U000e007f]"
)


def broken(text: str) -> str | None:
    """The characters that show a wrong decoding: two characters where there was one, U+FFFD, a ? within a word."""
    if text.isascii() and "?" not in text:
        return None
    for match in _AGAIN.findall(text):
        for end in range(len(match), 1, -1):
            if (fixed := _decoded_again(match[:end])) is not None and not _RARE.search(fixed):
                return f"{match[:end]!r} in place of {fixed!r}"
    if (lost := _LOST.search(text)) and "://" not in text:
        return f"{lost.group()!r}"
    return None


def unseen(text: str) -> str | None:
    """The first character that controls instead of being read."""
    found = UNSEEN.search(text)
    return None if found is None else f"U+{ord(found.group()):04X}"


def _decoded_again(text: str) -> str | None:
    try:
        return b"".join(_byte(c) for c in text).decode("utf-8")
    except UnicodeError:
        return None


def _byte(character: str) -> bytes:
    return character.encode("latin-1" if "\u0080" <= character <= "\u00ff" else "cp1252")
