"""From a config and a safetensors file to a model: what is declared is held against the file before memory is taken.

The model is built without memory first (PyTorch's meta device), and the building stops as soon as it declares more than
the file could fill. Names and shapes must then agree exactly.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.config import Part
from qkv.errors import BundleError, ConfigError
from qkv.tensors import read_tensors

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from qkv.models.base import Model, Sizes

LARGEST_INTEGER = 1 << 22  # no size, count or vocabulary of a model passes it
LARGEST_BUFFERS = 1 << 28  # bytes of what a model computes for itself and does not store
DEEPEST = 32
SHOWN = 5

Shapes = Mapping[str, tuple[int, ...]]


def load_model(
    part: Part[Any], sizes: "Sizes", path: Path, *, dtype: "torch.dtype", device: "torch.device | str" = "cpu"
) -> "Model":
    """The model with its weights, ready to run: matrices in `dtype`, what declares `keep_fp32` in fp32."""
    import torch

    from qkv.models.base import outline

    model = declared(part, sizes, path)
    state = _state(model, read_tensors(path, device=str(device)), dtype)
    computed = [buffer for name, buffer in model.named_buffers() if name not in state]
    if computed:
        # What is computed at construction has no values on the meta device: build once more, in memory.
        if (size := sum(buffer.nbytes for buffer in computed)) > LARGEST_BUFFERS:
            config = path.parent / "config.json"
            raise BundleError(f"{config} asks for {size:,} bytes of tables; {LARGEST_BUFFERS:,} is the most")
        with torch.device(device):
            model = outline(part, sizes)
    model.load_state_dict(state, strict=True, assign=True)
    model.eval()
    return model


def declared(part: Part[Any], sizes: "Sizes", path: Path) -> "Model":
    """The model on the meta device, found to want just what the file holds: names and shapes, no memory."""
    from qkv.models.base import weights

    held = read_shapes(path)
    model = _outlined(part, sizes, held, path)
    compare({name: tuple(t.shape) for name, t in weights(model).items()}, held, path)
    return model


def check_bounds(tree: Any, where: Path, depth: int = 0) -> None:
    """Refuses integers and depths that no model has, before anything is built of them."""
    if depth > DEEPEST:
        raise BundleError(
            f"{where} is nested more than {DEEPEST} deep, the limit of a config; it is not a file of ours"
        )
    if isinstance(tree, bool):
        return
    if isinstance(tree, int) and abs(tree) > LARGEST_INTEGER:
        raise BundleError(f"{where} holds the number {tree}; {LARGEST_INTEGER:,} is the largest a model may have")
    children: Iterable[Any] = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list) else ()
    for child in children:
        check_bounds(child, where, depth + 1)


def read_shapes(path: Path) -> Shapes:
    """The name and shape of every tensor that is stored, from the header alone."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stream:
            return {name: tuple(stream.get_slice(name).get_shape()) for name in stream.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise BundleError(f"{path} is missing; restore it from a copy") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise BundleError(f"{path} is not a sound safetensors file ({error}); restore it from a copy") from error


def _outlined(part: Part[Any], sizes: "Sizes", held: Shapes, path: Path) -> "Model":
    import torch

    from qkv.models.base import outline

    config = path.parent / "config.json"
    try:
        with _at_most(held, config), torch.device("meta"):
            return outline(part, sizes)
    except ConfigError as error:
        raise BundleError(f"{config} describes no model that can be built: {error}") from None
    except (TypeError, ValueError, RuntimeError, ArithmeticError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise BundleError(
            f"{config} describes no model that can be built ({reason}); restore it from a copy"
        ) from error


@contextmanager
def _at_most(shapes: Shapes, config: Path) -> Iterator[None]:
    """Stops a construction that takes many more parameters or modules than the weights' file holds."""
    from torch.nn.modules import module as registration

    # A layer may make a weight and then share another's, so twice the file is let through; the comparison is exact.
    tensors, numbers = 2 * len(shapes) + 16, 2 * sum(map(_count, shapes.values())) + 4096
    modules, seen = 64 * tensors, [0, 0, 0]

    def refuse(what: str, held: int) -> None:
        raise BundleError(f"{config} asks for more {what} than model.safetensors holds ({held:,}); they are not a pair")

    def parameter(_: Any, name: str, value: "Tensor | None") -> None:
        if value is None or value.device.type != "meta":
            return
        seen[0] += 1
        seen[1] += value.numel()
        if seen[0] > tensors:
            refuse("tensors", len(shapes))
        if seen[1] > numbers:
            refuse("numbers", sum(map(_count, shapes.values())))

    def submodule(_: Any, name: str, value: "nn.Module | None") -> None:
        seen[2] += 1
        if seen[2] > modules:
            refuse("layers", len(shapes))

    handles = [
        registration.register_module_parameter_registration_hook(parameter),
        registration.register_module_module_registration_hook(submodule),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def compare(declared: Shapes, held: Shapes, path: Path) -> None:
    """Refuses weights that are not those of the model declared: a name or a shape too many, too few or different."""
    if missing := sorted(declared.keys() - held.keys()):
        raise BundleError(f"{path} lacks {_some(missing)}, which config.json asks for; they are not a pair")
    if unexpected := sorted(held.keys() - declared.keys()):
        raise BundleError(f"{path} holds {_some(unexpected)}, which config.json does not know; they are not a pair")
    for name, shape in declared.items():
        if shape != held[name]:
            raise BundleError(
                f"{path}: {name} is {list(held[name])}, config.json asks for {list(shape)}; they are not a pair"
            )


def _state(model: "Model", tensors: "Mapping[str, Tensor]", dtype: "torch.dtype") -> "dict[str, Tensor]":
    """Every name of the model's with its tensor, cast once, so that names that share one go on sharing it."""
    import torch
    from torch import nn

    kept = {id(p) for m in model.modules() if getattr(m, "keep_fp32", False) for p in m.parameters(recurse=False)}
    names = model.state_dict(keep_vars=True)
    made: dict[int, Tensor] = {}
    for name, tensor in tensors.items():
        mine = names[name]
        cast = tensor.to(torch.float32 if id(mine) in kept else dtype) if mine.is_floating_point() else tensor
        made[id(mine)] = (
            nn.Parameter(cast, requires_grad=cast.is_floating_point()) if isinstance(mine, nn.Parameter) else cast
        )
    return {name: made[id(mine)] for name, mine in names.items()}


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
