"""How the daemon writes its log: to standard error, readable in a terminal, one JSON object a line anywhere else.

Events name ids and counts. Prompts, completions and feedback are never logged.
"""

import logging
import sys

import structlog
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError


def configure_logs(level: str) -> None:
    """Once, at start-up; `level` as in config.toml."""
    in_terminal = sys.stderr.isatty()
    renderers: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if in_terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(handlers=[_IntoStructlog()], level=logging.WARNING, force=True)


class _IntoStructlog(logging.Handler):
    """What libraries log by the standard library's logging, in the daemon's own form."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError | RequestPayloadError):
            # Bytes that are not what HTTP or their own headers say: the sender was told.
            # A trace would fill the log, and it quotes what was sent.
            log.info("malformed request refused", reason=type(error).__name__)
        else:
            log.log(record.levelno, record.getMessage(), exc_info=error)
