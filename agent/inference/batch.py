"""One forward pass worth of work, laid out flat: rows are tokens, whatever sequence they belong to.

Linear layers see (T, H) rows and do not care whose they are; only two things do. Attention goes part by part (a
prefill chunk alone; single tokens of neighbouring slots together), and adapters go group by group. Rows are
ordered so that both are plain slices. Pure: no model, no cache, no scheduling.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import torch

from agent.inference.lora import Adapter

_MAX_PADDING = 1.5  # a run of slots may read this many times the keys it needs, before it is split
_FREE_PADDING = 64  # keys per row that may be wasted regardless: an extra attention call costs more


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Tokens of one sequence that are not in the cache yet."""

    slot: int
    adapter: Adapter | None
    start: int
    """Position of the first token, which is also how many keys of the slot are filled."""
    token_ids: SequenceOf[int]

    @property
    def end(self) -> int:
        return self.start + len(self.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPart:
    """Rows that attend in one call: one chunk of one slot, or one token of each of several neighbouring slots."""

    rows: slice
    slots: slice
    num_keys: int
    mask: torch.Tensor | None
    """Added to the scores: (1, 1, L, K) for a chunk, (N, 1, 1, K) for single tokens."""
    is_causal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRows:
    rows: slice
    adapter: Adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    token_ids: torch.Tensor  # (T,) int64
    positions: torch.Tensor  # (T,) int64
    slots: torch.Tensor  # (T,) int64
    parts: tuple[AttentionPart, ...]
    adapter_rows: tuple[AdapterRows, ...]
    order: tuple[int, ...]
    """Chunk indices as given, in row order."""
    ends: tuple[int, ...]
    """Row after the last one of each chunk, in row order."""


def plan_batch(chunks: SequenceOf[Chunk]) -> Batch:
    """Order rows by adapter, then single tokens by slot, then longer chunks."""
    keys = {id(chunk.adapter): rank for rank, chunk in enumerate(chunks) if chunk.adapter is not None}
    order = sorted(
        range(len(chunks)),
        key=lambda i: (keys.get(id(chunks[i].adapter), -1), len(chunks[i].token_ids) > 1, chunks[i].slot),
    )
    ordered = [chunks[i] for i in order]
    ends: list[int] = []
    for chunk in ordered:
        ends.append((ends[-1] if ends else 0) + len(chunk.token_ids))
    return Batch(
        token_ids=torch.tensor([token for chunk in ordered for token in chunk.token_ids]),
        positions=torch.tensor([p for chunk in ordered for p in range(chunk.start, chunk.end)]),
        slots=torch.tensor([chunk.slot for chunk in ordered for _ in chunk.token_ids]),
        parts=tuple(_attention_parts(ordered)),
        adapter_rows=tuple(_adapter_rows(ordered, ends)),
        order=tuple(order),
        ends=tuple(ends),
    )


def _attention_parts(chunks: SequenceOf[Chunk]) -> list[AttentionPart]:
    parts: list[AttentionPart] = []
    run: list[Chunk] = []
    row = 0
    for chunk in chunks:
        if run and not _fits_run(run, chunk):
            parts.append(_run_part(run, row))
            row, run = row + len(run), []
        if len(chunk.token_ids) == 1:
            run.append(chunk)
            continue
        parts.append(_chunk_part(chunk, row))
        row += len(chunk.token_ids)
    if run:
        parts.append(_run_part(run, row))
    return parts


def _fits_run(run: list[Chunk], chunk: Chunk) -> bool:
    """Whether one more single token may share the call: next slot, and not too different in length."""
    if len(chunk.token_ids) != 1 or chunk.slot != run[-1].slot + 1:
        return False
    lengths = [member.end for member in (*run, chunk)]
    return max(lengths) * len(lengths) <= _MAX_PADDING * sum(lengths) + _FREE_PADDING * len(lengths)


def _run_part(run: list[Chunk], row: int) -> AttentionPart:
    lengths = torch.tensor([chunk.end for chunk in run])  # (N,)
    longest = int(lengths.max())
    hidden = torch.arange(longest) >= lengths[:, None]  # (N, K) bool
    mask = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))[:, None, None]
    return AttentionPart(
        rows=slice(row, row + len(run)),
        slots=slice(run[0].slot, run[-1].slot + 1),
        num_keys=longest,
        mask=mask if bool(hidden.any()) else None,
    )


def _chunk_part(chunk: Chunk, row: int) -> AttentionPart:
    length = len(chunk.token_ids)
    mask = None
    if chunk.start > 0:
        hidden = torch.arange(chunk.end) > torch.arange(chunk.start, chunk.end)[:, None]  # (L, K) bool
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))[None, None]
    return AttentionPart(
        rows=slice(row, row + length),
        slots=slice(chunk.slot, chunk.slot + 1),
        num_keys=chunk.end,
        mask=mask,
        is_causal=chunk.start == 0,
    )


def _adapter_rows(chunks: SequenceOf[Chunk], ends: SequenceOf[int]) -> list[AdapterRows]:
    groups: list[AdapterRows] = []
    start = 0
    for chunk, end in zip(chunks, ends, strict=True):
        if chunk.adapter is not None and groups and groups[-1].adapter is chunk.adapter:
            groups[-1] = AdapterRows(rows=slice(groups[-1].rows.start, end), adapter=chunk.adapter)
        elif chunk.adapter is not None:
            groups.append(AdapterRows(rows=slice(start, end), adapter=chunk.adapter))
        start = end
    return groups
