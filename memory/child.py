"""The child's side of being a child: die with the parent, stay polite. Imported before torch by every child.

Also what a pass may ask of its parent: `RunChild`, implemented by agent/supervisor.py, and the lines by which a child
says how far it is.

Threads and OMP_WAIT_POLICY are set by the parent in the child's environment (agent/supervisor.py), because they
must be there before torch is loaded.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

PARENT_PIPE_FD = "JOURNEYMAN_PARENT_PIPE"
"""Environment variable: the read end of a pipe whose write end only the parent holds."""


class ChildFailed(RuntimeError):
    """A child ended badly; the message is its own last line, or how it ended."""


class RunChild(Protocol):
    """Runs `python -m module workdir` to its end, in the daemon's own session.

    Standard output is read line by line (`on_line`; see read_progress), standard error goes to
    `workdir/stderr.log`. The parent sets threads and niceness; the child need not. Cancelling the call kills the
    child. Raises ChildFailed on a non-zero exit, a signal, or when `timeout_s` is over.
    """

    async def __call__(
        self,
        module: str,
        workdir: Path,
        *,
        threads: int,
        niceness: int,
        timeout_s: float,
        on_line: Callable[[str], None] | None = None,
    ) -> None: ...


def die_with_parent() -> None:
    """End this process when the parent is gone.

    End of file on the inherited pipe says so. PR_SET_PDEATHSIG would not do: it fires when the spawning *thread* ends,
    which need not be the process.
    """
    descriptor = os.environ.get(PARENT_PIPE_FD)
    if descriptor is None:
        return
    threading.Thread(target=_wait_for_end, args=(int(descriptor),), name="parent-watch", daemon=True).start()


def lower_priority(niceness: int) -> None:
    """Yield the processor to serving. Only meaningful inside the parent's session (autogroup scheduling)."""
    os.nice(niceness)


def say_progress(stage: str, done: int, total: int) -> None:
    """One line of progress on standard output, for the parent's `on_line`."""
    sys.stdout.write(json.dumps({"stage": stage, "done": done, "total": total}) + "\n")
    sys.stdout.flush()


def read_progress(line: str) -> tuple[str, int, int]:
    """The parent's side of say_progress: stage, done, total."""
    progress = json.loads(line)
    return str(progress["stage"]), int(progress["done"]), int(progress["total"])


def _wait_for_end(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os._exit(70)
