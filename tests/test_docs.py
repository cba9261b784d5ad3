"""Documents that say what the code is: the README's tree, config.toml, and keys that somebody reads."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agent.config_text import render_toml
from agent.tables import Settings

ROOT = Path(__file__).parent.parent
PACKAGES = ("memory", "reflection", "updater", "agent")


def _tree_paths() -> Iterator[str]:
    """Paths that the README's tree names: two spaces of indentation a level, folders end in /."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"## What lies where\n.*?```\n(.*?)```", readme, re.DOTALL)
    assert block is not None, "README.md has no tree under `## What lies where`"
    folders: list[str] = []
    for line in filter(str.strip, block[1].splitlines()):
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        del folders[depth:]
        yield "".join([*folders, name])
        if name.endswith("/"):
            folders.append(name)


def test_the_readme_tree_is_the_disk() -> None:
    """Every path in the tree exists; every module of the packages and benchmarks, and what tests share, is in it."""
    named = set(_tree_paths())
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    shared = (ROOT / "tests").glob("*.py")
    modules = {
        str(path.relative_to(ROOT))
        for path in chain(shared, *((ROOT / folder).rglob("*.py") for folder in (*PACKAGES, "benchmarks")))
        if path.name != "__init__.py" and "versions" not in path.parts
    }
    assert sorted(modules - named) == []


def test_the_architecture_names_what_exists() -> None:
    """Each `file.py` of the walk is there, and so is each name that stands behind its colon."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)(?:: ([\w.]+))?`", text)
    assert [f"{path}: {name}" for path, name in named if not _is_there(path, name)] == []


def _is_there(ending: str, name: str) -> bool:
    """True if a module's path ends so and it defines every part of the dotted name."""
    folders = (*PACKAGES, "benchmarks", "tests")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if f"/{path}".endswith(f"/{ending}")]
    parts = list(filter(None, name.split(".")))
    return any(
        all(re.search(rf"\b(def|class) {part}\b", path.read_text(encoding="utf-8")) for part in parts) for path in paths
    )


def test_config_toml_is_what_the_schema_renders() -> None:
    """The file in the repository has every key, with its meaning, unit, bounds and default."""
    assert (ROOT / "config.toml").read_text(encoding="utf-8") == render_toml(Settings())


def test_every_key_says_what_it_is() -> None:
    """Each key of each table has a description."""
    silent = [f"{name}.{key}" for name, key, field in _keys() if not field.description]
    assert silent == []


def test_every_key_is_read() -> None:
    """No key before its feature: each is an attribute that some module takes."""
    dead = [f"{name}.{key}" for name, key, _ in _keys() if key not in _attributes_read()]
    assert dead == []


def _keys() -> Iterator[tuple[str, str, FieldInfo]]:
    tables: dict[str, type[BaseModel]] = {name: type(getattr(Settings(), name)) for name in Settings.model_fields}
    for name, table in tables.items():
        for key, field in table.model_fields.items():
            yield name, key, field


@cache
def _attributes_read() -> frozenset[str]:
    """Names that are read as attributes anywhere in the packages, outside of the tables themselves."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    return frozenset(node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute))
