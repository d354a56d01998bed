"""Closed configuration, derived from the constructors themselves.

Keyword-only parameters are what a user may set; positional-only ones are what a builder supplies. A default stands
once, in the signature of the named constructor. `Part[Mixer]` says "one of the registered mixers, with its own
options"; a `Settings` dataclass is a section without a name. Unknown keys fail with the nearest valid one, and the
resolved tree holds every value there is.
"""

import inspect
import json
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic import TypeAdapter, ValidationError

from qkv import registry
from qkv.errors import ConfigError, nearest

T = TypeVar("T")

Count = Annotated[int, Gt(0)]
Natural = Annotated[int, Ge(0)]
Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Probability = Annotated[float, Ge(0), Lt(1)]
Share = Annotated[float, Ge(0), Le(1)]

LARGEST_FILE, DEEPEST = 1 << 14, 32


class Settings:
    """The base of a frozen keyword-only dataclass that is a section of a config."""


@dataclass(frozen=True)
class Part(Generic[T]):
    """A registered constructor and its options, ready to be given what the builder supplies."""

    kind: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, *given: Any) -> T:
        """The part itself: the builder's positional values, the user's keyword ones."""
        built: T = registry.find(self.kind, self.name)(*given, **self.options)
        return built

    def __hash__(self) -> int:
        return hash((self.kind, self.name, json.dumps(plain(self), sort_keys=True)))


class Raw(str):
    """A value typed on the command line: read by YAML's rules, unless the setting wants text."""


@dataclass(frozen=True)
class Setting:
    """One keyword-only parameter of a constructor."""

    name: str
    annotation: Any
    default: Any

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


@cache
def settings_of(target: Callable[..., Any]) -> dict[str, Setting]:
    """What may be configured of a constructor: its keyword-only parameters."""
    function = target.__init__ if inspect.isclass(target) else target
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(target).parameters.values()
    return {
        p.name: Setting(p.name, hints.get(p.name, Any), p.default)
        for p in parameters
        if p.kind is inspect.Parameter.KEYWORD_ONLY
    }


def resolve(target: Callable[..., Any], given: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Every setting of `target`, from what is given and the defaults; unknown keys and wrong types fail by name."""
    known = settings_of(target)
    given = dict(given)
    presets: Mapping[str, Mapping[str, Any]] | None = getattr(target, "presets", None)
    if presets is not None and (preset := given.pop("preset", None)) is not None:
        if preset not in presets:
            raise ConfigError(f'{_at(where, "preset")} "{preset}" is not known; {nearest(str(preset), presets)}')
        given = merged(presets[preset], given)
    for key in given:
        if key not in known:
            raise ConfigError(f'{where or "the config"} has no "{key}"; {nearest(str(key), known)}')
    resolved = {}
    for name, setting in known.items():
        if name in given:
            resolved[name] = _value(setting.annotation, given[name], _at(where, name), setting.default)
        elif setting.required:
            raise ConfigError(f"{_at(where, name)} must be given; it has no default")
        else:
            resolved[name] = _default(setting.annotation, setting.default, _at(where, name))
    return resolved


def part(kind: str, given: Any, where: str = "", default: Any = None) -> Part[Any]:
    """A part from its name or a mapping with `name` and options; a mapping without a name keeps the default's name."""
    if isinstance(given, Part):
        given = {"name": given.name, **given.options}
    if isinstance(given, str):
        given = {"name": str(given)}
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{where or kind} is {given!r}; it wants the name of a {kind}: {', '.join(registry.names(kind))}"
        )
    options = dict(given)
    name = options.pop("name", None)
    if isinstance(default, Part) and (name is None or name == default.name):
        name, options = default.name, merged(default.options, options)
    if name is None:
        raise ConfigError(f"{where or kind} needs a name; known: {', '.join(registry.names(kind))}")
    return Part(kind, str(name), resolve(registry.find(kind, str(name)), options, where or kind))


def section(cls: type[T], given: Any, where: str = "") -> T:
    """A `Settings` dataclass from a mapping."""
    target: Any = cls
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where} is {given!r}; it wants settings: {', '.join(settings_of(target))}")
    return cls(**resolve(cls, given, where))


def plain(value: Any) -> Any:
    """The JSON form of a resolved tree; `part` and `section` read it back to the same tree."""
    if isinstance(value, Part):
        return {"name": value.name, **{k: plain(v) for k, v in value.options.items()}}
    if isinstance(value, Settings):
        cls: Any = type(value)
        return {k: plain(getattr(value, k)) for k in settings_of(cls)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, mapping by mapping; a part that changes its name forgets the old one's options."""
    out = dict(base)
    for key, value in over.items():
        below = out.get(key)
        if isinstance(below, Part):
            below = {"name": below.name, **below.options}
        if isinstance(below, str) and isinstance(value, Mapping) and "name" not in value:
            below = {"name": below}
        if isinstance(below, Mapping) and isinstance(value, str) and below.get("name") == value:
            continue  # the same part, named once more
        if (
            isinstance(below, Mapping)
            and isinstance(value, Mapping)
            and value.get("name", below.get("name")) == below.get("name")
        ):
            out[key] = merged(below, value)
        else:
            out[key] = value
    return out


def overridden(tree: Mapping[str, Any], overrides: list[tuple[str, str]]) -> dict[str, Any]:
    """The tree with dotted `key.path value` pairs laid on it, in order."""
    out: dict[str, Any] = dict(tree)
    for dotted, raw in overrides:
        nested: Any = Raw(raw)
        for name in reversed(dotted.split(".")):
            nested = {name: nested}
        out = merged(out, nested)
    return out


def read(path: Path) -> dict[str, Any]:
    """A YAML file by the rules of YAML 1.2 (`no` is Norwegian); no tags, no aliases, at most 16 KiB."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ConfigError(
                f"{path} holds {path.stat().st_size:,} bytes; a config has at most {LARGEST_FILE:,}: "
                "is it the right file?"
            )
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path} is not there; a config is a YAML file such as recipes/translate.yaml") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as UTF-8 text ({error}); a config is a YAML file") from None
    tree = parse(text, str(path))
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} holds {type(tree).__name__}; a config is a mapping of settings")
    return tree


def parse(text: str, where: str) -> Any:
    """YAML text to plain values."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.tokens import (
        AliasToken,
        AnchorToken,
        BlockEndToken,
        BlockMappingStartToken,
        BlockSequenceStartToken,
        FlowMappingEndToken,
        FlowMappingStartToken,
        FlowSequenceEndToken,
        FlowSequenceStartToken,
        TagToken,
    )

    opening = BlockMappingStartToken | BlockSequenceStartToken | FlowMappingStartToken | FlowSequenceStartToken
    depth = 0
    try:
        for token in YAML(typ="safe", pure=True).scan(text):
            # The reader's time grows with the square of the depth.
            depth += isinstance(token, opening)
            depth -= isinstance(token, BlockEndToken | FlowMappingEndToken | FlowSequenceEndToken)
            if depth > DEEPEST:
                raise ConfigError(f"{where} is nested more than {DEEPEST} deep; a config is not, is it the right file?")
            if isinstance(token, AliasToken | AnchorToken | TagToken):
                line = token.start_mark.line + 1
                raise ConfigError(f"{where}, line {line}: tags, anchors and aliases are not read; write the value out")
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is not YAML: {' '.join(str(error).split())[:300]}") from None


def dump(tree: Any) -> str:
    """The YAML text of a resolved tree."""
    from io import StringIO

    from ruamel.yaml import YAML

    writer, out = YAML(typ="safe", pure=True), StringIO()
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.dump(plain(tree), out)
    return out.getvalue()


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _default(annotation: Any, default: Any, where: str) -> Any:
    """A default, with the options of its parts filled in."""
    kind = _kind(annotation)
    if kind is not None and default is not None:
        return part(kind, default, where)
    return section(type(default), plain(default), where) if isinstance(default, Settings) else default


def _kind(annotation: Any) -> str | None:
    """The registry's kind that an annotation `Part[X]` or `Part[X] | None` names."""
    for option in _options(annotation):
        if get_origin(option) is Part:
            (cls,) = get_args(option)
            return str(cls.kind)
    return None


def _options(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _value(annotation: Any, given: Any, where: str, default: Any) -> Any:
    raw = str(given) if isinstance(given, Raw) else None
    value = _read(raw) if raw is not None else given
    options = _options(annotation)
    if value is None and type(None) in options:
        return None
    if (kind := _kind(annotation)) is not None:
        return part(kind, value, where, default)
    for option in options:
        if inspect.isclass(option) and issubclass(option, Settings):
            if isinstance(default, Settings) and isinstance(value, Mapping):
                value = merged(plain(default), value)
            return value if isinstance(value, option) else section(option, value, where)
    problem: ValidationError | TypeError | None = None
    for candidate in [value] if raw is None else [value, raw]:
        try:
            return _leaf(annotation, candidate)
        except (ValidationError, TypeError) as error:
            problem = problem or error
    told = [e["msg"].lower() for e in problem.errors()] if isinstance(problem, ValidationError) else [str(problem)]
    raise ConfigError(f"{where} is {value!r}: {'; '.join(dict.fromkeys(told))}")


def _read(raw: str) -> Any:
    """What was typed, by YAML's rules; as it stands where it is no YAML."""
    try:
        return parse(raw, "")
    except ConfigError:
        return raw


@cache
def _adapter(annotation: Any) -> Any:
    return TypeAdapter(annotation)


def _leaf(annotation: Any, value: Any) -> Any:
    # JSON's strict rules are the wanted ones: a list may be a tuple, but "8" is not 8 and 1 is not true.
    return _adapter(annotation).validate_json(json.dumps(value, allow_nan=True, default=_refuse), strict=True)


def _refuse(value: Any) -> Any:
    raise TypeError(f"a {type(value).__name__} is not a plain value; put quotes around it if it is text")
