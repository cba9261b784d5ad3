"""Keeps the daemon small: memory that start-up and passes needed for a moment goes back to the system."""

import ctypes
import gc

_M_ARENA_MAX = -8
"""glibc's number for the most heaps that threads may open."""
_MAX_ARENAS = 2


def limit_arenas() -> None:
    """Before threads start: each would keep a heap of its own. Does nothing without glibc."""
    libc = _glibc()
    if libc is not None:
        libc.mallopt(_M_ARENA_MAX, _MAX_ARENAS)


def give_back_memory() -> None:
    """Collect, and return free pages to the system. Does nothing more without glibc."""
    gc.collect()
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return libc if hasattr(libc, "malloc_trim") else None
