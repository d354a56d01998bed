"""Errors planted into good pairs, rule by rule, so that what the doctor finds can be counted against what is there."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qkv.data.doctor.marks import numbers
from qkv.data.sources import Pair

FOREIGN = [
    "Le train pour Lyon est parti ce matin avec presque une heure de retard à cause de la neige.",
    "Nous avons décidé de rester à la maison parce qu'il pleuvait toute la journée.",
    "El perro de mi vecina ladra todas las noches cuando alguien pasa por la calle.",
    "Ayer compramos pan, queso y algunas manzanas en el mercado de la plaza mayor.",
    "La biblioteca comunale resterà chiusa per lavori fino alla fine del mese prossimo.",
    "Quando arrivammo alla stazione, il treno per Firenze era già partito da un pezzo.",
    "De kinderen speelden de hele middag buiten in het park achter het oude gemeentehuis.",
    "Vanwege het slechte weer is de wedstrijd van zaterdag naar volgende week verplaatst.",
    "Мы долго ждали автобуса на остановке, но он так и не приехал в тот вечер.",
    "Моя сестра работает врачом в большой больнице недалеко от центра города.",
    "Dzieci bawiły się w ogrodzie, a rodzice rozmawiali przy stole o wakacjach nad morzem.",
    "Pociąg do Krakowa odjeżdża z drugiego peronu za piętnaście minut, proszę się pospieszyć.",
    "Vi bestämde oss för att stanna hemma eftersom det regnade hela dagen i går.",
    "Kevään ensimmäiset kukat puhkesivat kukkaan pihalla heti kun lumi oli sulanut.",
    "A gyerekek egész délután a kertben játszottak, amíg el nem kezdett esni az eső.",
    "Çocuklar bütün öğleden sonra bahçede oynadılar ve akşam yemeğine geç kaldılar.",
]
PLACES = ["{name}", "{0}", "%s", "%(count)s", "<b>", "https://example.org/help", "{{ value }}", "&nbsp;", "%1$s"]
HIDDEN = ["\u200b", "\x07", "\u202e", "\ufeff", "\x85", "\u2028"]


@dataclass(frozen=True)
class Planted:
    """A corpus, the lines at which each rule has something to find, and a test set that shares some of it."""

    pairs: list[Pair]
    where: dict[str, set[int]]
    test: list[Pair]

    @property
    def clean(self) -> set[int]:
        return set(range(len(self.pairs))) - set().union(*self.where.values())


def plant(pairs: Sequence[Pair], each: int, seed: int = 1) -> Planted:
    """`each` errors of every kind, among pairs that are left as they are."""
    rng = random.Random(seed)
    made, where = list(pairs), {name: set[int]() for name in [*KINDS, "duplicate", "leak"]}
    free = [i for i in range(len(made)) if len(made[i].source.split()) >= 5 and len(made[i].target.split()) >= 5]
    rng.shuffle(free)
    taken: set[int] = set()
    for name, change in KINDS.items():
        for i in free:
            if len(where[name]) == each:
                break
            if i not in taken and (changed := change(made[i], rng)) is not None:
                made[i] = changed
                where[name].add(i)
                taken.add(i)
    rest = [i for i in free if i not in taken]
    for first, again in zip(rest[:each], rest[each : 2 * each], strict=True):
        first, again = sorted((first, again))
        made[again] = Pair(made[first].source.upper(), made[first].target.rstrip(".!?") + " !")
        where["duplicate"].add(again)
    leaked = rest[2 * each : 3 * each]
    where["leak"] |= set(leaked)
    test = [Pair(made[i].source.rstrip(".") + "!", "x") if i % 2 else Pair("x", made[i].target) for i in leaked]
    return Planted(made, where, test)


def _empty(pair: Pair, rng: random.Random) -> Pair | None:
    return _one_side(pair, rng, lambda text: rng.choice(["", "  "]))


def _encoding(pair: Pair, rng: random.Random) -> Pair | None:
    def harm(text: str) -> str:
        how = rng.randrange(3)
        letters = [i for i, c in enumerate(text) if c.isalpha() and 0 < i < len(text) - 1]
        inner = [i for i in letters if text[i - 1].isalpha() and text[i + 1].isalpha()]
        if how == 0 and any("\u00c0" <= c <= "\u00ff" for c in text):
            return text.encode("utf-8").decode("cp1252", "ignore")
        at = rng.choice(inner or letters)
        return text[:at] + ("\ufffd" if how == 1 or not inner else "?") + text[at + 1 :]

    return _one_side(pair, rng, harm)


def _control(pair: Pair, rng: random.Random) -> Pair | None:
    def harm(text: str) -> str:
        at = rng.randrange(len(text))
        return text[:at] + rng.choice(HIDDEN) + text[at:]

    return _one_side(pair, rng, harm)


def _long(pair: Pair, rng: random.Random) -> Pair | None:
    return Pair(*(" ".join([text] * (200 // len(text.split()) + 1)) for text in pair))


def _ratio(pair: Pair, rng: random.Random) -> Pair | None:
    if min(map(len, pair)) < 30:
        return None
    return _one_side(pair, rng, lambda text: text[: len(text) // 10] if rng.random() < 0.5 else " ".join([text] * 6))


def _copy(pair: Pair, rng: random.Random) -> Pair | None:
    return Pair(pair.source, pair.source) if rng.random() < 0.5 else Pair(pair.target, pair.target)


def _numbers(pair: Pair, rng: random.Random) -> Pair | None:
    if numbers(pair.source) != numbers(pair.target) or not numbers(pair.source):
        number = str(rng.randrange(21, 9_999))
        pair = Pair(f"{pair.source} ({number})", f"{pair.target} ({number})")

    def harm(text: str) -> str:
        at = rng.choice([i for i, c in enumerate(text) if c.isdigit()])
        return text[:at] + str((int(text[at]) + rng.randrange(1, 9)) % 10) + text[at + 1 :]

    return _one_side(pair, rng, harm)


def _placeholders(pair: Pair, rng: random.Random) -> Pair | None:
    mark, other = rng.sample(PLACES, 2)
    harmed = rng.choice(["", other, f"{mark} {mark}"])
    sides = [f"{pair.source} {mark}", f"{pair.target} {harmed}"]
    return Pair(sides[0], sides[1])


def _language(pair: Pair, rng: random.Random) -> Pair | None:
    if min(sum(map(str.isalpha, text)) for text in pair) < 40:
        return None
    if rng.random() < 0.5:
        return Pair(pair.target, pair.source)
    return _one_side(pair, rng, lambda text: rng.choice(FOREIGN))


def _one_side(pair: Pair, rng: random.Random, harm: Callable[[str], str]) -> Pair:
    side = rng.randrange(2)
    return Pair(harm(pair.source), pair.target) if side == 0 else Pair(pair.source, harm(pair.target))


KINDS: dict[str, Callable[[Pair, random.Random], Pair | None]] = {
    "language": _language,
    "ratio": _ratio,
    "numbers": _numbers,
    "encoding": _encoding,
    "control": _control,
    "long": _long,
    "copy": _copy,
    "placeholders": _placeholders,
    "empty": _empty,
}
