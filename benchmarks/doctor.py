"""What the doctor finds of errors planted into real pairs: recall and false alarms by rule, and MB/s on one core.

    python -m benchmarks.doctor --pairs "$QKV_DATA/tatoeba/train.de-en.tsv.gz"

Half of the language errors swap the sides, half put in a line of another language. False alarms are counted on the
lines that were left as they are; what is really wrong with those counts as an alarm too. Speed is of this process's
time on the processor, with language identification, on the pairs as they are. The last line is JSON: the figures.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from qkv.data.doctor.examine import examine
from qkv.data.doctor.language import Languages
from qkv.data.doctor.rules import rules
from qkv.data.sources import Pair, ParallelText
from tests.data.doctor.planted import plant

RECALL, ALARMS, SPEED = 0.95, 0.01, 1.0


def judged_lines(pairs: list[Pair], test: list[Pair], languages: tuple[str, str]) -> tuple[dict[str, set[int]], int]:
    """The lines that each rule speaks of, counted from 0."""
    with tempfile.TemporaryDirectory() as name:
        paths = []
        for stem, texts in (("train", pairs), ("test", test)):
            sides = [Path(name) / f"{stem}.{side}" for side in (0, 1)]
            for side, path in enumerate(sides):
                path.write_text("".join(text[side] + "\n" for text in texts), encoding="utf-8", newline="\n")
            paths.append(ParallelText(*sides, bad_lines="skip"))
        found, lines = examine(paths[:1], rules(languages=Languages(languages)), tests=paths[1:], examples=len(pairs))
        count = sum(1 for _ in lines)
        assert count == len(pairs), (count, len(pairs))
        return {rule: {e.line - 1 for e in tally.examples} for rule, tally in found.tallies.items()}, found.lines


def speed(corpus: ParallelText, languages: tuple[str, str], repeats: int) -> float:
    """Megabytes of text a second, the best of some passes."""
    best = 0.0
    for _ in range(repeats):
        began = time.process_time()
        found, lines = examine([corpus], rules(languages=Languages(languages)))
        for _ in lines:
            pass
        best = max(best, found.bytes / 1e6 / (time.process_time() - began))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True, help="a TSV of good pairs")
    parser.add_argument("--languages", nargs=2, default=["de", "en"], metavar=("FROM", "TO"))
    parser.add_argument("--lines", type=int, default=40_000, help="of the pairs, for planting")
    parser.add_argument("--each", type=int, default=1_000, help="errors of each kind")
    parser.add_argument("--repeats", type=int, default=3)
    flags = parser.parse_args()
    corpus = ParallelText(flags.pairs, bad_lines="skip")
    pairs = [row for row in corpus.rows() if isinstance(row, Pair)]
    step = max(1, len(pairs) // flags.lines)
    planted = plant(pairs[::step], flags.each)
    languages = (flags.languages[0], flags.languages[1])
    spoken, lines = judged_lines(planted.pairs, planted.test, languages)
    clean, figures = planted.clean, []
    print(f"{lines:,} lines, {len(clean):,} of them as they were\n")
    print(f"{'rule':<14}{'planted':>8}{'found':>8}{'recall':>9}{'alarms':>8}{'share':>9}")
    for rule, where in planted.where.items():
        hits, alarms = len(where & spoken[rule]), len(clean & spoken[rule])
        recall, share = hits / len(where), alarms / len(clean)
        print(f"{rule:<14}{len(where):>8,}{hits:>8,}{recall:>9.1%}{alarms:>8,}{share:>9.3%}")
        figures.append(
            {"name": f"recall, {rule}", "value": round(recall, 4), "target": RECALL, "met": recall >= RECALL}
        )
        figures.append({"name": f"alarms, {rule}", "value": round(share, 5), "target": ALARMS, "met": share <= ALARMS})
    rate = speed(corpus, languages, flags.repeats)
    print(f"\n{rate:.2f} MB/s on one core, best of {flags.repeats}")
    figures.append({"name": "doctor, MB/s per core", "value": round(rate, 2), "target": SPEED, "met": rate >= SPEED})
    print(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
