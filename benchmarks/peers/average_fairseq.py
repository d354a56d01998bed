"""The mean of the last N epoch checkpoints of a fairseq run, as one checkpoint: average_fairseq.py FOLDER N OUTPUT."""

import re
import sys
from pathlib import Path

import torch


def main(folder: str, count: str, output: str) -> None:
    epochs = {int(m[1]): p for p in Path(folder).iterdir() if (m := re.fullmatch(r"checkpoint(\d+)\.pt", p.name))}
    chosen = sorted(epochs)[-int(count) :]
    if not chosen:
        sys.exit(f"{folder} holds no checkpointN.pt; train without --no-epoch-checkpoints")
    states = [torch.load(epochs[epoch], map_location="cpu", weights_only=False) for epoch in chosen]
    mean = states[-1]
    for name, last in mean["model"].items():
        if last.is_floating_point():
            total = sum(state["model"][name].double() for state in states)
            mean["model"][name] = (total / len(states)).to(last.dtype)
    torch.save(mean, output)
    print(f"averaged epochs {chosen[0]} to {chosen[-1]} ({len(chosen)} checkpoints) into {output}", file=sys.stderr)


main(*sys.argv[1:])
