"""How the daemon writes its log: to standard error, readable in a terminal, one JSON object a line anywhere else.

Events name ids and counts. Prompts, completions and feedback are never logged.
"""

import logging
import sys

import structlog


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
