"""The model card: what a model is, how it was trained, what it scored, how to use it; for people and for model hubs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qkv import __version__

TEXT = """---
{front}
---

# {name}

{what}

## Use

```
echo {example} | qkv translate --model {path}
```

```python
import qkv

print(qkv.load({quoted}).translate({python}))
```

## Training

{training}

## Scores

{scores}

A score stands for the test set it was measured on, and for nothing else.
"""


@dataclass(frozen=True)
class Score:
    """One measured number: on what, in what unit, and sacreBLEU's signature where there is one."""

    data: str
    metric: str
    value: float
    signature: str = ""


@dataclass(frozen=True)
class Card:
    """What only the maker of a model knows; every field may be left out."""

    name: str = "translator"
    source_language: str = ""
    target_language: str = ""
    description: str = ""
    license: str = ""
    example: str = "Hello!"
    training: Mapping[str, Any] = field(default_factory=dict)
    scores: Sequence[Score] = ()


def card_text(card: Card, *, model: str, parameters: int, path: str = "PATH") -> str:
    """The README.md of a bundle; `path` is how its user may call the folder."""
    facts = {"model": model, "parameters": f"{parameters:,}", **card.training, "made with": f"qkv {__version__}"}
    return TEXT.format(
        front=_front(card, model),
        name=_line(card.name),
        what=card.description.strip() or _what(card),
        example=_shell(card.example),
        path=path,
        quoted=json.dumps(path, ensure_ascii=False),
        python=json.dumps([card.example], ensure_ascii=False),
        training=_table(["fact", "value"], [[k, v] for k, v in facts.items()]),
        scores=_table(["data", "metric", "score", "signature"], [_row(s) for s in card.scores])
        if card.scores
        else "None were measured when this model was saved; `qkv evaluate` measures.",
    )


def _front(card: Card, model: str) -> str:
    languages = [language for language in (card.source_language, card.target_language) if language]
    entries: dict[str, Any] = {"library_name": "qkv", "pipeline_tag": "translation", "tags": ["qkv", model]}
    if languages:
        entries["language"] = languages
    if card.license:
        entries["license"] = card.license
    # JSON's scalars and lists are YAML's: nothing in a name can break out of them.
    return "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entries.items())


def _what(card: Card) -> str:
    if card.source_language and card.target_language:
        return f"Translates from {_line(card.source_language)} to {_line(card.target_language)}."
    return "Translates text, one sentence a line."


def _row(score: Score) -> list[str]:
    return [score.data, score.metric, f"{score.value:.2f}", f"`{score.signature}`" if score.signature else ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_line(str(cell)).replace("|", r"\|") for cell in line) + " |" for line in lines)


def _line(text: str) -> str:
    return " ".join(text.split())


def _shell(text: str) -> str:
    return "'" + _line(text).replace("'", "'\\''") + "'"
