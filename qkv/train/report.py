"""A run as one page to send to a colleague: curves, samples over time, scores by length, attention, the plan beside
what happened, the exact command and versions.

What has to be measured is measured once, at the end of the run, and kept in `report.json`; the page is drawn from that,
the run's log and its `run.json`, and from `plan.json` where `qkv plan --save` put one.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.draw import Number, curves, heat, intervals, page, table
from qkv.evaluate.runner import Asked, by_length, scores_of, translated
from qkv.folder import read_json, write_json, write_text
from qkv.metrics.bootstrap import interval
from qkv.train.journal import LOG

if TYPE_CHECKING:
    from qkv.pipeline.translator import Translator

PAGE, MEASURED = "report.html", "report.json"
SENTENCES = 400  # of the development set, evenly, for scores by length
PICTURES, LONGEST = 3, 24  # sentences whose attention is drawn, and their most tokens
POINTS = 400  # of a curve


def measure(translator: "Translator", sources: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Scores by length with their intervals, and attention, on a part of the development set."""
    step = max(1, len(sources) // SENTENCES)
    sources, references = sources[::step][:SENTENCES], references[::step][:SENTENCES]
    output = translated(translator, sources, [references], {})
    asked = Asked("none" if translator.pretokenized else "13a")
    statistics = scores_of(output.lines, [references], asked)[:2]
    lengths = [len(line.split()) for line in references]
    buckets = []
    for bucket in by_length(statistics, references):
        inside = [i for i, n in enumerate(lengths) if bucket.shortest <= n <= (bucket.longest or n)]
        scores = {}
        for each in statistics:
            own = replace(each, rows=each.rows[inside])
            bounds = interval(own)
            scores[each.name] = [bounds.low, own.score(), bounds.high]
        label = f"{max(1, bucket.shortest)}-{bucket.longest}" if bucket.longest else f"{bucket.shortest}+"
        buckets.append({"words": label, "sentences": len(inside), "scores": scores})
    whole = {each.name: [each.score(), each.signature] for each in statistics}
    shown = sorted(range(len(sources)), key=lambda i: abs(lengths[i] - 8))[:PICTURES]
    return {
        "sentences": len(sources),
        "scores": whole,
        "by_length": buckets,
        "examples": [
            [sources[i], output.lines[i], references[i]] for i in range(0, len(sources), len(sources) // 10 or 1)
        ],
        "attention": [
            drawn for i in shown if (drawn := attention(translator, sources[i], output.lines[i])) is not None
        ],
    }


def attention(translator: "Translator", source: str, target: str) -> dict[str, Any] | None:
    """What the decoder's layers look at in the source, the mean of each layer's heads; None for what can't be seen."""
    import torch

    from qkv.data.batch import Batch
    from qkv.data.collate import filled, ragged
    from qkv.models.protocols import Predicts
    from qkv.nn.call import Want

    ids = translator.source.encode([source]), translator.target.encode([target])
    if not isinstance(translator.model, Predicts) or not all(0 < len(side[0]) < LONGEST for side in ids):
        return None
    batch = Batch.of(
        torch.tensor([0]), filled(*ragged(ids[0]), begin=False), filled(*ragged(ids[1]), begin=True), split="test"
    )
    with torch.no_grad():
        _, extras = translator.model.hidden(batch.to(translator.device), want=Want.of("decoder.*.cross.maps"))
    if not extras.maps:
        return None
    layers = [maps[0].float().mean(0).round(decimals=4).tolist() for maps in extras.maps.values()]
    return {
        "source": [*_pieces(translator.source, ids[0][0]), "</s>"],
        "target": [*_pieces(translator.target, ids[1][0]), "</s>"],
        "layers": layers,
    }


def write(folder: Path, measured: Mapping[str, Any] | None) -> Path:
    """Keeps what was measured and draws the page."""
    if measured is not None:
        write_json(folder / MEASURED, dict(measured))
    made = folder / PAGE
    write_text(made, drawn(folder))
    return made


def drawn(folder: Path) -> str:
    """The page of a run's folder as it stands."""
    log = _log(folder)
    run = read_json(folder / "run.json")
    measured = read_json(folder / MEASURED) if (folder / MEASURED).is_file() else {}
    plan = read_json(folder / "plan.json") if (folder / "plan.json").is_file() else None
    parts = [f"<h1>{escape(folder.resolve().name)}</h1>", _headline(run, log, measured), _curves(log)]
    parts += [_scores(measured), _samples(log), _examples(measured), _attention(measured)]
    parts += [_plan(plan, run, log), _events(log), _command(run)]
    return page(f"{folder.resolve().name}: a run of qkv", *filter(None, parts))


def _headline(run: Mapping[str, Any], log: Sequence[Mapping[str, Any]], measured: Mapping[str, Any]) -> str:
    last: Mapping[str, Any] = next((line for line in reversed(log) if "elapsed" in line), {})
    data, model = run["recipe"]["data"], run["recipe"]["model"]
    facts = [
        f"{data.get('source')} to {data.get('target')}",
        f"{model['name']}, {run['parameters']:,} parameters",
        f"{run['prepared']['train']['pairs']:,} pairs",
        f"{last.get('step', 0):,} steps in {last.get('elapsed', 0) / 60:,.0f} minutes",
        f"{run['precision']}, {run['sittings'][-1]['threads']} threads",
    ]
    if "BLEU" in measured.get("scores", {}):
        facts.append(f"BLEU {measured['scores']['BLEU'][0]:.1f} on {measured['sentences']:,} development sentences")
    return f"<p class=soft>{escape('; '.join(facts))}</p>"


def _curves(log: Sequence[Mapping[str, Any]]) -> str:
    steps = [line for line in log if "tokens_per_second" in line]
    dev = [line for line in log if "dev" in line and "candidate" not in line]

    def of(name: str, scale: Number = 1) -> list[tuple[Number, Number]]:
        return _thinned([(line["step"], line[name] * scale) for line in steps if line.get(name) is not None])

    drawn = [
        curves("-log p a token", {"training": of("nll"), "development": [(d["step"], d["dev"]["nll"]) for d in dev]})
    ]
    for name in ("bleu", "chrf"):
        if any(name in line["dev"] for line in dev):
            drawn.append(curves(f"{name} on the development set", {name: [(d["step"], d["dev"][name]) for d in dev]}))
    drawn += [
        curves("learning rate", {"rate": of("rate")}, floor=0),
        curves("target tokens a second", {"speed": of("tokens_per_second")}, floor=0),
        curves("padding, % of target cells", {"padding": of("padding", 100)}, floor=0),
    ]
    return f"<h2>Training</h2><div class=grid>{''.join(drawn)}</div>"


def _scores(measured: Mapping[str, Any]) -> str:
    if not measured:
        return ""
    parts = [
        "<h2>Scores by length</h2>",
        f"<p class=soft>{measured['sentences']:,} development sentences by the words of ",
    ]
    parts.append("the reference; lines are 95% intervals of the bootstrap</p><div class=grid>")
    labels = [f"{bucket['words']} ({bucket['sentences']})" for bucket in measured["by_length"]]
    for name, (value, signature) in measured["scores"].items():
        values = [tuple(bucket["scores"][name]) for bucket in measured["by_length"]]
        parts.append(f"<figure><figcaption>{name} {value:.1f}</figcaption>{intervals(labels, values)}")
        parts.append(f"<p class=soft><code>{escape(signature)}</code></p></figure>")
    return "".join([*parts, "</div>"])


def _samples(log: Sequence[Mapping[str, Any]]) -> str:
    seen = [line for line in log if "samples" in line]
    if not seen:
        return ""
    step = max(1, (len(seen) - 1) // 5)
    chosen = [*seen[:-1:step], seen[-1]]
    parts = ["<h2>Samples over time</h2><p class=soft>the same development sentences at several validations</p>"]
    for number, (source, _, reference) in enumerate(seen[-1]["samples"]):
        rows = [[line["step"], line["samples"][number][1]] for line in chosen if number < len(line["samples"])]
        said = table(["step", "translation"], [*rows, ["reference", reference]])
        parts.append(f"<details open><summary>{escape(source)}</summary>{said}</details>")
    return "".join(parts)


def _examples(measured: Mapping[str, Any]) -> str:
    if not measured:
        return ""
    return "<h2>Translations</h2>" + table(["source", "translation", "reference"], measured["examples"])


def _attention(measured: Mapping[str, Any]) -> str:
    if not measured.get("attention"):
        return ""
    parts = ["<h2>What the decoder looks at</h2>"]
    parts.append(
        "<p class=soft>each row is a target token, each column a source token; the mean over a layer's heads</p>"
    )
    for number, seen in enumerate(measured["attention"]):
        for layer, values in enumerate(seen["layers"]):
            opened = " open" if number == 0 and layer == len(seen["layers"]) - 1 else ""
            title = escape(" ".join(seen["target"][:-1]))
            picture = f"<div class=scroll>{heat(seen['target'], seen['source'], values)}</div>"
            parts.append(f"<details{opened}><summary>layer {layer + 1}: {title}</summary>{picture}</details>")
    return "".join(parts)


def _plan(plan: Mapping[str, Any] | None, run: Mapping[str, Any], log: Sequence[Mapping[str, Any]]) -> str:
    if plan is None:
        return ""
    rows = [
        [name, *map(_number, pair), f"{pair[1] / pair[0] - 1:+.0%}"] for name, pair in beside(plan, run, log).items()
    ]
    return "<h2>The plan beside what happened</h2>" + table(["", "planned", "measured", "off by"], rows)


def beside(
    plan: Mapping[str, Any], run: Mapping[str, Any], log: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[Number, Number]]:
    """What was planned and what then happened, by name."""
    steps = [line for line in log if "tokens_per_second" in line]
    if not steps:
        return {}
    spent, taken = steps[-1]["elapsed"] / 60, steps[-1]["step"]
    speeds = sorted(line["tokens_per_second"] for line in steps)
    found = {
        "parameters": (plan["parameters"], run["parameters"]),
        "tokens a second": (plan["tokens_per_second"], speeds[len(speeds) // 2]),
        "steps a minute": (plan["steps"] / plan["minutes"], taken / spent),
    }
    if "memory" in steps[-1]:
        found["peak memory, GB"] = (plan["memory"]["peak"] / 1e9, max(line["memory"] for line in steps) / 1e9)
    return found


def _events(log: Sequence[Mapping[str, Any]]) -> str:
    rows = [[line["step"], line["guard"], line["reason"]] for line in log if "guard" in line]
    if not rows:
        return ""
    return f"<h2>What the guard did</h2><details><summary>{len(rows)} times</summary>" + (
        table(["step", "", "why"], rows) + "</details>"
    )


def _command(run: Mapping[str, Any]) -> str:
    parts = ["<h2>Command and versions</h2>"]
    for sitting in run["sittings"]:
        parts.append(f"<pre>{escape(shlex.join(['qkv', *sitting['command'][1:]]))}</pre>")
    versions = ", ".join(f"{name} {run['sittings'][-1][name]}" for name in ("qkv", "torch", "python"))
    recipe = escape(json.dumps(run["recipe"], indent=2, ensure_ascii=False))
    parts.append(
        f"<p class=soft>{escape(versions)}</p><details><summary>every setting</summary><pre>{recipe}</pre></details>"
    )
    return "".join(parts)


def _log(folder: Path) -> list[dict[str, Any]]:
    path = folder / LOG
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # the last line of a killed process
    return [line for line in found if isinstance(line, dict)]


def _thinned(points: list[tuple[Number, Number]]) -> list[tuple[Number, Number]]:
    step = max(1, len(points) // POINTS)
    return [*points[::step], *points[-1:]]


def _pieces(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Each token as a reader knows it."""
    return [tokenizer.decode([[token]])[0].strip() or tokenizer.tokens[token] for token in ids]


def _number(value: Number) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
