"""How text is cut into words before BPE sees it, and glued together afterwards.

Words begin with "▁" where a space stood (SentencePiece, Kudo & Richardson 2018, 3.2). A "▁" of the text itself becomes
the noncharacter U+FDD0 in between, so that it survives.

Raw text comes back in Unicode's composed form (NFC), with each run of ASCII white space, information separators and
line breaks as one space, and none at the ends; all else, no-break spaces too, comes back as it was. Digits and
punctuation marks stand alone. Pretokenised text is cut at spaces only and comes back exactly, if its words are
separated by single spaces. With `lowercase`, either comes back in lower case. U+FDD0 alone is lost: it reads as "▁".
"""

from dataclasses import dataclass

from tokenizers import Regex, decoders, normalizers, pre_tokenizers

MARK = "▁"
LITERAL_MARK = "\ufdd0"
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))

RUNS = r"[ \t\n\v\f\r\x{1c}-\x{1e}\x{85}\x{2028}\x{2029}]+"
ENDS = r"\A | \z"
# Letters with their accents and controls; one digit; one mark; one space other than those above; a lone space.
WORDS = rf"{MARK}?[^\p{{N}}\p{{P}}\p{{S}}\p{{Z}}]+|\p{{N}}|{MARK}?[\p{{P}}\p{{S}}&&[^{MARK}]]|\p{{Z}}|{MARK}"


@dataclass(frozen=True)
class Spelling:
    """What BPE sees of a text."""

    pretokenized: bool = False
    lowercase: bool = False
    byte_fallback: bool = True

    def normalizer(self) -> normalizers.Normalizer:
        """Text to one string in which every word that follows a space, and the first, begins with the mark."""
        steps: list[normalizers.Normalizer] = [] if self.pretokenized else [normalizers.NFC()]
        if self.lowercase:
            steps.append(normalizers.Lowercase())
        steps += [
            normalizers.Replace(Regex(" +" if self.pretokenized else RUNS), " "),
            normalizers.Replace(Regex(ENDS), ""),
            normalizers.Replace(MARK, LITERAL_MARK),
            normalizers.Replace(" ", MARK),
            normalizers.Prepend(MARK),
        ]
        return normalizers.Sequence(steps)

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """That string to words."""
        if self.pretokenized:
            return pre_tokenizers.Split(MARK, "merged_with_next")
        return pre_tokenizers.Split(Regex(WORDS), "isolated")

    def decoder(self) -> decoders.Decoder:
        """Pieces to text."""
        steps: list[decoders.Decoder] = [decoders.ByteFallback()] if self.byte_fallback else []
        steps += [
            decoders.Fuse(),
            decoders.Replace(MARK, " "),
            decoders.Replace(LITERAL_MARK, MARK),
            decoders.Strip(" ", 1, 0),
        ]
        return decoders.Sequence(steps)

    def fixed_tokens(self, specials: tuple[str, ...]) -> tuple[str, ...]:
        """The tokens that stand before the alphabet, whatever the text."""
        return specials + (BYTE_TOKENS if self.byte_fallback else ())
