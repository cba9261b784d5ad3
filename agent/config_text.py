"""Settings as the text of a config.toml: every key with its meaning, unit, bounds and default above it.

The config.toml in the repository is exactly what this gives for the defaults; a test says so.
"""

import json
import re
import textwrap
from collections.abc import Sequence

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

_WIDTH = 110  # columns

_HEAD = """\
# Journeyman's settings. A daemon reads --config FILE, else $JOURNEYMAN_CONFIG, else the config.toml in its data
# directory (written there at the first start, all keys commented out). JOURNEYMAN_<TABLE>__<KEY> in the environment
# comes before the file, as JOURNEYMAN_SERVER__PORT=9000. A key that is left out takes its default; a key that does not
# exist is an error.
"""


def render_toml(settings: BaseModel) -> str:
    """The whole file."""
    return "\n".join([_HEAD, *(_render_table(name, getattr(settings, name)) for name in type(settings).model_fields)])


def render_template(settings: BaseModel) -> str:
    """The whole file with every key commented out: what a person edits, and what does not pin today's defaults."""
    return re.sub(r"^(?=[a-z])", "# ", render_toml(settings), flags=re.MULTILINE)


def render_value(value: object) -> str:
    """One value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, BaseModel):
        return "{ " + ", ".join(f"{key} = {render_value(item)}" for key, item in value) + " }"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Sequence):
        return "[" + ", ".join(render_value(item) for item in value) + "]"
    if isinstance(value, int | float):
        return repr(value)
    raise TypeError(f"no TOML for {type(value).__name__}")


def _render_table(name: str, table: BaseModel) -> str:
    purpose = (type(table).__doc__ or "").strip().splitlines()[0]
    keys = [_render_key(key, field, getattr(table, key)) for key, field in type(table).model_fields.items()]
    return f"# {purpose}\n[{name}]\n" + "\n".join(keys)


def _render_key(key: str, field: FieldInfo, value: object) -> str:
    meaning = f"{(field.description or '').rstrip('.')}."
    facts = " ".join(filter(None, [meaning, _bounds(field), f"Default: {render_value(field.default)}."]))
    comment = textwrap.fill(
        facts, _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False
    )
    return f"{comment}\n{key} = {render_value(value)}\n"


def _bounds(field: FieldInfo) -> str:
    """`From 0 to 65535.`, or nothing where a key has no bounds."""
    low = high = ""
    for rule in field.metadata:
        if isinstance(rule, Ge):
            low = f"from {rule.ge}"
        elif isinstance(rule, Gt):
            low = f"above {rule.gt}"
        elif isinstance(rule, Le):
            high = f"to {rule.le}" if low.startswith("from") else f"up to {rule.le}"
        elif isinstance(rule, Lt):
            high = f"below {rule.lt}"
    text = " ".join(filter(None, [low, high]))
    return f"{text[0].upper()}{text[1:]}." if text else ""
