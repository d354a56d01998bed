"""`qkv env`: the machine, the libraries, and what qkv chooses from them; the start of any report of a fault."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version

from qkv.cli.options import Parser

LIBRARIES = (
    "torch",
    "numpy",
    "safetensors",
    "tokenizers",
    "pydantic",
    "sacrebleu",
    "sentencepiece",
    "pyarrow",
    "tensorboard",
)

GIB = 1 << 30


def parser() -> Parser:
    flags = Parser(
        "env", "Show what this machine offers and what qkv chooses from it.", examples=["qkv env", "qkv env --json"]
    )
    flags.add_argument("--json", action="store_true", help="print one JSON object")
    return flags


def run(argv: list[str]) -> int:
    options = parser().read(argv)
    found = facts()
    print(json.dumps(found, indent=2) if options.json else as_text(found))
    return 0


def facts() -> dict[str, object]:
    """Everything the verb shows, as plain values."""
    from qkv import __version__, native, runtime

    machine = runtime.this_machine()
    data = runtime.data_folder()
    return {
        "qkv": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": {name: installed(name) for name in LIBRARIES},
        "cpu": machine.cpu,
        "cpu_flags": list(machine.flags),
        "usable_cpus": machine.usable_cpus,
        "cores": machine.cores,
        "sockets": machine.sockets,
        "memory_gib": round(machine.memory / GIB, 1),
        "gpus": [
            {"name": gpu.name, "memory_gib": round(gpu.memory / GIB, 1), "bf16": gpu.bf16} for gpu in machine.gpus
        ],
        "torch_build": torch_build(),
        "kernels": native.state(),
        "device": str(runtime.device(machine)),
        "threads": runtime.threads(machine),
        "precision": runtime.pick_precision(machine),
        "qkv_data": str(data) if data else None,
    }


def torch_build() -> dict[str, object]:
    """What this build of PyTorch was made for, which no version number says."""
    import torch

    return {
        "cuda": torch.version.cuda,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "onednn": torch.backends.mkldnn.is_available(),
    }


def installed(name: str) -> str | None:
    """A library's version without importing it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def as_text(found: dict[str, object]) -> str:
    """One fact a line, `name  value`."""
    width = max(map(len, found))
    return "\n".join(f"{name:{width}}  {_shown(value)}" for name, value in found.items())


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    return (
        {None: "none", True: "yes", False: "no"}.get(value, str(value))
        if value is None or isinstance(value, bool)
        else str(value)
    )
