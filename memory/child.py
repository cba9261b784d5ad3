"""The child's side of being a child: die with the parent, stay polite. Imported before torch by every child.

Threads and OMP_WAIT_POLICY are set by the parent in the child's environment (agent/supervisor.py), because they
must be there before torch is loaded.
"""

import ctypes
import os
import signal
import threading

PARENT_PIPE_FD = "JOURNEYMAN_PARENT_PIPE"
"""Environment variable: the read end of a pipe whose write end only the parent holds."""

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """End this process when the parent is gone.

    End of file on the inherited pipe is the guarantee. PR_SET_PDEATHSIG is only an addition: it fires when the
    spawning *thread* ends, which need not be the process.
    """
    descriptor = os.environ.get(PARENT_PIPE_FD)
    if descriptor is None:
        return
    threading.Thread(target=_wait_for_end, args=(int(descriptor),), name="parent-watch", daemon=True).start()


def lower_priority(niceness: int) -> None:
    """Yield the processor to serving. Only meaningful inside the parent's session (autogroup scheduling)."""
    os.nice(niceness)


def set_parent_death_signal() -> None:
    """Ask Linux to kill us when the spawning thread ends; a no-op elsewhere."""
    libc_name = "libc.so.6"
    try:
        ctypes.CDLL(libc_name).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except OSError:
        return


def _wait_for_end(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os._exit(70)
