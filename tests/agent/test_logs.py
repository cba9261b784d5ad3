"""What libraries log comes out in the daemon's own form, and quotes nobody."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from aiohttp.http_exceptions import BadHttpMessage

from agent.logs import configure_logs


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    root.handlers[:] = before


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_bytes_that_are_no_http_are_one_line_without_their_content(capsys: pytest.CaptureFixture[str]) -> None:
    """aiohttp would print a traceback for each, with what was sent."""
    configure_logs("info")
    error = BadHttpMessage("a secret")
    logging.getLogger("aiohttp.server").error("Error handling request from %s", "127.0.0.1", exc_info=error)
    (line,) = lines_of(capsys)
    assert (line["event"], line["reason"], line["level"]) == ("malformed request refused", "BadHttpMessage", "info")
    assert "secret" not in json.dumps(line)


def test_other_records_keep_their_level_and_trace(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info")
    logging.getLogger("some.library").error("it broke %d times", 2, exc_info=ValueError("why"))
    logging.getLogger("some.library").info("chatter")
    (line,) = lines_of(capsys)
    assert (line["event"], line["level"]) == ("it broke 2 times", "error")
    assert "ValueError: why" in str(line["exception"])
