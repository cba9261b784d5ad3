"""How the settings of one daemon come about: defaults < config file < JOURNEYMAN_<TABLE>__<KEY> < flags.

The only reader of TOML and of the environment. Whatever is wrong becomes one ConfigError that names the key, where it
was written, and the nearest key that exists.
"""

import difflib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agent.config_text import render_template
from agent.tables import Settings

CONFIG_VARIABLE = "JOURNEYMAN_CONFIG"
CONFIG_NAME = "config.toml"
DEFAULT = "default"
"""The origin of what nobody set."""
_VARIABLE = re.compile(r"JOURNEYMAN_([A-Z]+)__(\w+)")
_APPLICATION = "journeyman"
_MOVED = {
    "server.api_keys": "keys are kept in the store now; yours stays good with: journeyman keys add NAME --sha256 ..."
}
"""Keys that older versions had, and what has taken their place."""


class ConfigError(ValueError):
    """The configuration cannot be used; the message is one line for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """One key as somebody set it."""

    table: str
    key: str
    value: object
    """What TOML can hold."""
    origin: str
    """Where: a file and line, the name of an environment variable, or a flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedKey:
    """One key in force."""

    name: str
    """table.key"""
    value: object
    default: object
    origin: str
    """Where its value was given, or `default`."""


def load_settings(
    data_dir: Path,
    *,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """Settings of the daemon on `data_dir`. `flags` maps `table.key` to a value. Raises ConfigError."""
    return _validate(_gather(data_dir, config_file, os.environ if environ is None else environ, flags or {}))


def explain_settings(
    data_dir: Path, *, config_file: Path | None = None, environ: Mapping[str, str] | None = None
) -> list[ExplainedKey]:
    """What `load_settings` would give, key by key, each with where it comes from. Raises ConfigError."""
    given = _gather(data_dir, config_file, os.environ if environ is None else environ, {})
    settings = _validate(given)
    explained = []
    for table in Settings.model_fields:
        for key, field in _table(table).model_fields.items():
            origin = given[f"{table}.{key}"].origin if f"{table}.{key}" in given else DEFAULT
            value = getattr(getattr(settings, table), key)
            explained.append(ExplainedKey(name=f"{table}.{key}", value=value, default=field.default, origin=origin))
    return explained


def _gather(
    data_dir: Path, config_file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]
) -> dict[str, _Given]:
    """By table.key what was said last."""
    path = _config_path(data_dir, config_file, environ)
    said = (*_from_file(path), *_from_environment(environ), *_from_flags(flags))
    return {f"{one.table}.{one.key}": one for one in said}


def default_data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """$XDG_DATA_HOME/journeyman, or what stands for it on this system."""
    data_home = (os.environ if environ is None else environ).get("XDG_DATA_HOME", "")
    return Path(data_home) / _APPLICATION if data_home else Path(platformdirs.user_data_dir(_APPLICATION))


def model_cache_dir(settings: Settings) -> Path:
    """Where fetched and converted models lie."""
    if settings.policy.cache_dir:
        return Path(settings.policy.cache_dir).expanduser()
    return Path(platformdirs.user_cache_dir(_APPLICATION)) / "models"


def write_first_config(data_dir: Path) -> None:
    """Give a new data directory its config.toml; leave one that is there as it is."""
    path = data_dir / CONFIG_NAME
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists():
        return
    descriptor, name = tempfile.mkstemp(dir=data_dir, prefix=f".{CONFIG_NAME}-")  # mode 0600: keys may go in here
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(render_template(Settings()))
    Path(name).replace(path)


def _config_path(data_dir: Path, config_file: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The one file to read; a named one must exist."""
    named = config_file or (Path(environ[CONFIG_VARIABLE]).expanduser() if environ.get(CONFIG_VARIABLE) else None)
    if named is not None:
        if not named.is_file():
            raise ConfigError(f"there is no configuration file {named}")
        return named
    own = data_dir / CONFIG_NAME
    return own if own.is_file() else None


def _from_file(path: Path | None) -> Iterator[_Given]:
    if path is None:
        return
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{path}: {problem}") from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path} cannot be read: {problem}") from problem
    lines = _line_numbers(text)
    for table, content in document.items():
        if not isinstance(content, dict):
            where = f"{path} line {lines.get(('', table), '?')}"
            raise ConfigError(f"{where}: {table} stands outside of a table; begin with [server] or another table")
        if table not in Settings.model_fields:
            where = f"{path} line {lines.get((table, ''), '?')}"
            raise ConfigError(f"{where}: there is no table [{table}]{_nearest(table, Settings.model_fields)}")
        for key, value in content.items():
            yield _Given(table=table, key=key, value=value, origin=f"{path} line {lines.get((table, key), '?')}")


def _line_numbers(text: str) -> dict[tuple[str, str], int]:
    """(table, key) -> line, from 1; the table itself has the key "". Good for files that people write."""
    lines: dict[tuple[str, str], int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\s*(\w+)\s*\]", line):
            table = header[1]
            lines.setdefault((table, ""), number)
        elif key := re.match(r"\s*([\w-]+)\s*=", line):
            lines.setdefault((table, key[1]), number)
    return lines


def _from_environment(environ: Mapping[str, str]) -> Iterator[_Given]:
    for variable in sorted(environ):
        if found := _VARIABLE.fullmatch(variable):
            table, key = found[1].lower(), found[2].lower()
            if table not in Settings.model_fields:
                raise ConfigError(f"{variable}: there is no table [{table}]{_nearest(table, Settings.model_fields)}")
            yield _Given(table=table, key=key, value=_typed(table, key, environ[variable]), origin=variable)


def _typed(table: str, key: str, text: str) -> object:
    """An environment variable's text as TOML would hold it: bare for texts, else TOML's own spelling."""
    if key not in _table(table).model_fields or _table(table).model_fields[key].annotation is str:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # validation says what was expected


def _from_flags(flags: Mapping[str, object]) -> Iterator[_Given]:
    for name, value in flags.items():
        table, _, key = name.partition(".")
        yield _Given(table=table, key=key, value=value, origin=f"--{key.replace('_', '-')}")


def _validate(given: Mapping[str, _Given]) -> Settings:
    document: dict[str, dict[str, object]] = {}
    for one in given.values():
        document.setdefault(one.table, {})[one.key] = one.value
    try:
        # By way of JSON, because pydantic is strict about types there and still takes a list for a tuple.
        return Settings.model_validate_json(json.dumps(document, default=str), strict=True)
    except ValidationError as problem:
        raise ConfigError(_explain(problem.errors()[0], given)) from problem


def _explain(problem: ErrorDetails, given: Mapping[str, _Given]) -> str:
    """One line: where, which key, what is wrong."""
    location: Sequence[str | int] = problem["loc"]
    table, key = (*map(str, location[:2]), "", "")[:2]
    message = problem["msg"].removeprefix("Value error, ")
    origin = given.get(f"{table}.{key}") or _named_in(message, table, given)
    where = f"{origin.origin}: " if origin is not None else ""
    name = ".".join(map(str, location))
    if name in _MOVED:
        return f"{where}there is no key {name} any more: {_MOVED[name]}"
    if problem["type"] == "extra_forbidden" and len(location) == 2:
        return f"{where}there is no key {name}{_nearest(key, _table(table).model_fields, prefix=f'{table}.')}"
    if problem["type"] == "value_error":
        return f"{where}{f'[{table}] ' if table else ''}{message}"
    return f"{where}{name}: {message[0].lower()}{message[1:]}, not {json.dumps(problem['input'], default=str)}"


def _named_in(message: str, table: str, given: Mapping[str, _Given]) -> _Given | None:
    """The key that a rule over several keys speaks of, where somebody set it."""
    for name, one in given.items():
        if name in message or (one.table == table and re.search(rf"\b{one.key}\b", message)):
            return one
    return None


def _table(name: str) -> type[BaseModel]:
    annotation = Settings.model_fields[name].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, BaseModel)
    return annotation


def _nearest(name: str, known: Mapping[str, object], *, prefix: str = "") -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {prefix}{close[0]}?" if close else ""
