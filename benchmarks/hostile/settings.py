"""Configuration with something wrong, read as the daemon reads it: every key, every table, files cut and changed."""

import random
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

from agent.config import ConfigError, load_settings
from agent.config_text import render_toml
from agent.tables import Settings
from benchmarks.hostile.cases import BROKEN, REFUSED, TAKEN, UNNAMED, Verdict

TOML_VALUES = (
    '""', '"1"', '"soon"', '"\\u0000"', '"' + "x" * 3000 + '"', "true", "false", "0", "-1", "1", "0.5", "-0.0", "1e308",
    "nan", "inf", "-inf", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "[]", '["a"]', "[[]]",
    "{}", "{ a = 1 }", "1979-05-27", "07:32:00", "'61 * * * *'", "'25:00-26:00'", "'Mars/Olympus'", "'/dev/null'",
)  # fmt: skip
VARIABLES = ("", " ", "1", "-1", "nan", "true", "[", "x" * 300, "\u202e")
NO_ENVIRONMENT: MappingProxyType[str, str] = MappingProxyType({})


def settings_verdicts(folder: Path, *, num_random: int) -> Iterator[Verdict]:
    """One verdict a case."""
    file = folder / "config.toml"
    for table, key in _keys():
        for value in TOML_VALUES:
            file.write_text(f"[{table}]\n{key} = {value}\n", encoding="utf-8")
            yield _read(folder, f"{table}.{key} = {value:.30}", named=key)
        for value in VARIABLES:
            file.unlink(missing_ok=True)
            variable = f"JOURNEYMAN_{table.upper()}__{key.upper()}"
            yield _read(folder, f"{variable}={value:.30}", named=key, environ={variable: value})
        file.write_text(f"[{table}]\n{key}x = 1\n", encoding="utf-8")
        yield _read(folder, f"{table}.{key}x", named=f"{key}x")
    whole = render_toml(Settings()).encode()
    rng = random.Random(0)  # noqa: S311 - draws that can be repeated
    for number in range(num_random):
        file.write_bytes(whole[: rng.randrange(len(whole))])
        yield _read(folder, f"cut {number}")
        changed = bytearray(whole)
        for _ in range(rng.randint(1, 5)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        file.write_bytes(bytes(changed))
        yield _read(folder, f"changed {number}")
    file.unlink()


def _keys() -> Iterator[tuple[str, str]]:
    for table in Settings.model_fields:
        for key in type(getattr(Settings(), table)).model_fields:
            yield table, key


def _read(
    folder: Path,
    name: str,
    *,
    named: str | None = None,
    environ: dict[str, str] | MappingProxyType[str, str] = NO_ENVIRONMENT,
) -> Verdict:
    try:
        load_settings(folder, environ=environ)
    except ConfigError as problem:
        message = str(problem)
        is_clear = "\n" not in message and (named is None or named in message.lower())
        return Verdict(area="configuration", name=name, outcome=REFUSED if is_clear else UNNAMED, message=message)
    except Exception as problem:  # noqa: BLE001 - that there is no other is what this asks
        return Verdict(area="configuration", name=name, outcome=BROKEN, message=repr(problem))
    return Verdict(area="configuration", name=name, outcome=TAKEN)
