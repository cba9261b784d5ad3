"""Keys and values of running sequences: one slot a sequence, long enough for the longest one allowed.

Slots lie in one anonymous mapping that is far larger than what is ever used: a page costs memory only once it is
written, and `release` gives a slot's pages back. So a slot needs no paging table, its keys are one plain view, and
resident memory still follows the tokens that are really held. Knows nothing of sequences or scheduling.
"""

import mmap

import torch

from agent.inference.architecture import Architecture

_MAP_NORESERVE = 0x4000  # Linux: the mapping's size is not counted as committed memory
_KEEP_TOKENS = 1024  # a freed slot shorter than this keeps its pages: faulting them in again costs more


class KVCache:
    """(slot, layer, 2, T, kv head, D) float32; index 0 of the third axis holds keys, 1 values."""

    def __init__(self, architecture: Architecture, *, num_slots: int, slot_tokens: int) -> None:
        shape = (
            num_slots,
            architecture.num_layers,
            2,
            slot_tokens,
            architecture.num_kv_heads,
            architecture.head_dim,
        )
        values_per_slot = torch.Size(shape[1:]).numel()
        self._slot_bytes = -(-values_per_slot * 4 // mmap.PAGESIZE) * mmap.PAGESIZE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._pages = mmap.mmap(-1, num_slots * self._slot_bytes, flags=flags)
        flat = torch.frombuffer(self._pages, dtype=torch.float32).view(num_slots, -1)
        entries = flat[:, :values_per_slot].view(shape)
        self._keys = tuple(entries[:, layer, 0] for layer in range(architecture.num_layers))
        self._values = tuple(entries[:, layer, 1] for layer in range(architecture.num_layers))

    def keys(self, layer: int) -> torch.Tensor:
        """(slot, T, kv head, D), a view."""
        return self._keys[layer]

    def values(self, layer: int) -> torch.Tensor:
        """(slot, T, kv head, D), a view."""
        return self._values[layer]

    def release(self, slot: int, num_tokens: int) -> None:
        """Give the pages of a slot that held `num_tokens` back to the system, where that is worth it."""
        if num_tokens > _KEEP_TOKENS:
            self._pages.madvise(mmap.MADV_DONTNEED, slot * self._slot_bytes, self._slot_bytes)
