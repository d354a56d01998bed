"""The bench on which claims run: it trains recipes in a folder of its own and asks the models that come of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv import config, runtime
from qkv.errors import ConfigError

if TYPE_CHECKING:
    from qkv.pipeline.translator import Translator
    from qkv.train.recipe import Recipe

Say = Callable[[str], None]


@dataclass(frozen=True)
class Bench:
    """A folder to work in, and someone to tell. A training that is there already is not done again."""

    folder: Path
    say: Say = lambda text: None

    def file(self, name: str, write: Callable[[Path], None]) -> Path:
        """A generated file, made once."""
        path = self.folder / "data" / name
        if not path.is_file():
            from qkv.folder import make_folder, new_file

            make_folder(path.parent)
            with new_file(path) as draft:
                write(draft)
        return path

    def data(self, *parts: str) -> Path:
        """A folder of the benchmark data; where it is not there, one sentence says what to set."""
        base = runtime.data_folder()
        if base is None or not base.joinpath(*parts).is_dir():
            wanted = "/".join(("QKV_DATA", *parts))
            raise ConfigError(f"this claim is about data that is not here: set QKV_DATA so that {wanted} is its folder")
        return base.joinpath(*parts)

    def recipe(self, tree: Mapping[str, Any]) -> "Recipe":
        """A resolved recipe, its prepared data within the bench."""
        from qkv.train.recipe import Recipe

        over = {"data": {"cache": str(self.folder / "prepared")}, "train": {"report": False, "samples": 0}}
        found: Recipe = config.section(Recipe, config.merged(tree, over))
        return found

    def train(self, name: str, tree: Mapping[str, Any]) -> "Trained":
        """A model trained to the end of its recipe."""
        from qkv.train.run import train

        recipe = self.recipe(tree)
        key = sha256(config.dump(recipe).encode()).hexdigest()[:12]
        folder = self.folder / f"{name.replace(' ', '-')}-{key}"
        if not (folder / "manifest.json").is_file():
            self.say(f"training {name}")
            train(recipe, folder, quiet=True)
        return Trained(folder, recipe)


@dataclass(frozen=True)
class Trained:
    """A run that has ended."""

    folder: Path
    recipe: "Recipe"

    def load(self, precision: str | None = None) -> "Translator":
        """Its model."""
        from qkv.pipeline.load import load

        return load(self.folder, precision=precision)

    def nll(self) -> float:
        """-log p a target token on the development set, of the weights that were kept."""
        import json

        log = [json.loads(line) for line in (self.folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        kept = [line["dev"]["nll"] for line in log if "candidate" in line]
        return float(min(kept))

    def right(self, pairs: Sequence[tuple[str, str]]) -> float:
        """The share of pairs whose target the model finds, word for word, greedily."""
        said = self.load().translate([source for source, _ in pairs], num_beams=1)
        return sum(answer == target for answer, (_, target) in zip(said, pairs, strict=True)) / len(pairs)
