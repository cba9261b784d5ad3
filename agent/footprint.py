"""Keeps the daemon small: memory that start-up and passes needed for a moment goes back to the system."""

import asyncio
import ctypes
import gc

_M_ARENA_MAX = -8
"""glibc's number for the most heaps that threads may open."""
_MAX_ARENAS = 2
_TRIM_EVERY_S = 60.0


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


async def keep_small() -> None:
    """For ever: return what requests have left free. Takes milliseconds, so it may run between them."""
    libc = _glibc()
    while libc is not None:
        await asyncio.sleep(_TRIM_EVERY_S)
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return libc if hasattr(libc, "malloc_trim") else None
