"""Reading a request's JSON strictly: what a lenient reader would let through becomes a 400 here, never a 500.

Refused: bad UTF-8, numbers that are not finite or absurdly long, repeated keys, depth beyond what anyone means, NUL and
lone surrogates (neither survives being stored). The size of a body is limited by the application.
"""

import json
import math
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from agent.api.errors import ApiError, bad_request

T = TypeVar("T", bound=BaseModel)

_MAX_DEPTH = 64
_SURROGATES = range(0xD800, 0xE000)


async def read_body(request: web.Request, schema: type[T]) -> T:
    """The body as a record of `schema`. Raises ApiError naming the parameter."""
    try:
        return schema.model_validate(parse_json(await request.read()))
    except web.RequestPayloadError:
        raise bad_request("The body breaks off, or is not encoded as the request's headers say.") from None
    except ValidationError as error:
        raise describe(error) from None


def parse_json(body: bytes) -> dict[str, object]:
    """A JSON object. Raises ApiError."""
    try:
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_unique_keys,
            parse_float=_finite,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError:
        raise bad_request("The body is not valid UTF-8.") from None
    except RecursionError:
        raise bad_request("The body is nested too deeply.") from None
    except ValueError as error:  # json.JSONDecodeError, the hooks below, integers of thousands of digits
        raise bad_request(f"The body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise bad_request("The body must be a JSON object.")
    _check(value, depth=0)
    return value


def _check(value: object, *, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise bad_request("The body is nested too deeply.")
    if isinstance(value, str):
        if any(character == "\0" or ord(character) in _SURROGATES for character in value):
            raise bad_request("The body holds a NUL character or half of a surrogate pair.")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check(key, depth=depth)
            _check(item, depth=depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth=depth + 1)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return number


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def describe(error: ValidationError, *, within: str = "") -> ApiError:
    """The first thing that is wrong, with its place in dotted form as OpenAI writes it: messages.0.content."""
    first = error.errors(include_url=False, include_input=False)[0]
    parts = [str(part) for part in first["loc"] if not str(part).startswith(("function-", "tagged-"))]
    place = ".".join([within, *parts] if within else parts)
    message = first["msg"].removeprefix("Value error, ")
    return bad_request(f"{place}: {message}" if place else message, param=place or None)
