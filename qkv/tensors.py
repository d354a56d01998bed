"""Tensors in a safetensors file: written whole or not at all, tied weights once, read back without unpickling.

Two names for one tensor (a tied embedding) are stored as one, the other as an entry of the header's `aliases`.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from qkv.errors import BundleError
from qkv.folder import new_file


def write_tensors(path: Path, tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str] | None = None) -> None:
    """Writes contiguous copies where needed; names that share one tensor share it again when read."""
    stored, aliases = _once(tensors)
    header = {"format": "pt", **(metadata or {})}
    if aliases:
        header["aliases"] = json.dumps(aliases, sort_keys=True)
    with new_file(path) as draft:
        try:
            safetensors.torch.save_file(stored, draft, metadata=header)
        except SafetensorError as error:
            code = re.search(r"os error (\d+)", str(error))
            if code is None:
                raise
            raise OSError(int(code[1]), str(error)) from error
        _sort_metadata(draft)


def read_tensors(path: Path, *, device: str = "cpu") -> dict[str, Tensor]:
    """Every tensor of the file in memory of its own, so that the file may go; a BundleError where it is damaged."""
    try:
        with safe_open(path, framework="pt", device=device, backend="pread") as stream:
            aliases = json.loads((stream.metadata() or {}).get("aliases", "{}"))
            tensors: dict[str, Tensor] = stream.get_tensors()
        return tensors | {alias: tensors[name] for alias, name in aliases.items()}
    except FileNotFoundError:
        raise BundleError(f"{path} is missing; restore it from a copy") from None
    except (SafetensorError, OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise BundleError(f"{path} is not a sound safetensors file ({error}); restore it from a copy") from error


def _once(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once and in a form that safetensors takes, beside the names that mean one already stored."""
    first: dict[tuple[object, ...], str] = {}
    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    storages: set[tuple[object, int]] = set()
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        assert tensor.device.type != "meta", f"{name} has no data to save"
        if tensor.numel():
            place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
            if first.setdefault(place, name) != name:
                aliases[name] = first[place]
                continue
            storage = (tensor.device, tensor.untyped_storage().data_ptr())
            # Another view of a storage already taken may overlap it, which the format refuses.
            tensor = tensor.clone() if storage in storages else tensor
            storages.add(storage)
        stored[name] = tensor.contiguous()
    return stored, aliases


def _sort_metadata(path: Path) -> None:
    """The library writes metadata in an order that changes by process; the same tensors shall be the same bytes."""
    with path.open("r+b") as stream:
        room = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(room))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        assert len(text) <= room, "sorting a header made it longer"
        stream.seek(8)
        stream.write(text.ljust(room))
