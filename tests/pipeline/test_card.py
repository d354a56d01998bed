"""A card says what it was given and nothing can break out of its front matter."""

from qkv.config import parse
from qkv.pipeline.card import Card, Score, card_text


def front(text: str) -> dict[str, object]:
    _, head, _ = text.split("---\n", 2)
    found = parse(head, "README.md")
    assert isinstance(found, dict)
    return found


def test_facts_and_scores_stand_in_the_card() -> None:
    card = Card(
        name="m30k",
        source_language="de",
        target_language="no",
        license="mit",
        training={"steps": 1200, "command": "qkv train --config a|b.yaml"},
        scores=[Score("flickr 2016", "BLEU", 41.237, "nrefs:1|case:mixed")],
    )
    text = card_text(card, model="transformer", parameters=1234567, path="runs/m30k")
    assert front(text)["language"] == ["de", "no"]
    assert front(text)["license"] == "mit"
    assert "Translates from de to no." in text
    assert "| parameters | 1,234,567 |" in text
    assert r"| command | qkv train --config a\|b.yaml |" in text
    assert r"| flickr 2016 | BLEU | 41.24 | `nrefs:1\|case:mixed` |" in text
    assert "qkv translate --model runs/m30k" in text


def test_a_card_without_scores_says_so_and_odd_text_cannot_break_out() -> None:
    card = Card(name="a\n---\nb", source_language='x": [', target_language="y", example="it's\nfine")
    text = card_text(card, model="transformer", parameters=1)
    assert "None were measured" in text
    assert front(text)["language"] == ['x": [', "y"]
    assert "# a --- b" in text
    assert "echo 'it'\\''s fine'" in text
