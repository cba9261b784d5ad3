"""How a command ends when it cannot do what was asked: one line and an exit code that scripts can rely on."""

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_RUNNING = 3
    NOT_READY = 4


class CommandFailed(RuntimeError):
    """One line for the person at the terminal."""

    def __init__(self, message: str, *, code: ExitCode = ExitCode.ERROR) -> None:
        super().__init__(message)
        self.code = code
