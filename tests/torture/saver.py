"""A run reduced to its saves: takes the lock, goes on from its newest checkpoint and saves the next steps without end.

    python -m tests.torture.saver --out DIR [--megabytes 4] [--steps N] [--limit BYTES]

Every value of step N's tensors follows from N, so that whoever reads them can tell whether they are whole.
"""

import argparse
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.errors import QkvError
from qkv.lock import FolderLock
from qkv.train.checkpoint import Checkpoints, Saved

if TYPE_CHECKING:
    from torch import Tensor


def tensors_of(step: int, size: int) -> "dict[str, dict[str, Tensor]]":
    """Weights and optimizer of a made-up step: [size] floats each, and a tied name."""
    import torch

    weights = torch.arange(size, dtype=torch.float32) + step
    return {"weights": {"embed": weights, "output": weights}, "optimizer": {"moment": weights * 2}}


def is_whole(saved: Saved) -> bool:
    """Whether a checkpoint holds exactly what `tensors_of` gave for its step."""
    import torch

    weights, optimizer = saved.tensors["weights"], saved.tensors["optimizer"]
    expected = tensors_of(saved.step, len(weights["embed"]))
    return (
        saved.state == {"position": saved.step}
        and all(torch.equal(tensor, expected["weights"][name]) for name, tensor in weights.items())
        and torch.equal(optimizer["moment"], expected["optimizer"]["moment"])
        and weights.keys() == expected["weights"].keys()
    )


def run(out: Path, megabytes: float, steps: int) -> None:
    size = int(megabytes * 1e6 / 8)
    with FolderLock(out) as lock:
        checkpoints = Checkpoints(out / "checkpoints", lock=lock)
        saved = checkpoints.load()
        if saved is not None and not is_whole(saved):
            raise SystemExit(f"step {saved.step} verified and is not what was saved")
        first = saved.step + 1 if saved else 1
        print(f"from step {first}", flush=True)
        for step in range(first, first + steps):
            checkpoints.save(step, tensors_of(step, size), {"position": step}, pin="best" if step % 7 == 1 else None)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--megabytes", type=float, default=4.0)
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--limit", type=int, help="bytes that one file may have")
    chosen = parser.parse_args()
    if chosen.limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (chosen.limit, resource.RLIM_INFINITY))
    try:
        run(chosen.out, chosen.megabytes, chosen.steps)
    except QkvError as error:
        print(f"qkv: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
