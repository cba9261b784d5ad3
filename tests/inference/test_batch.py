"""The layout of one forward pass."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.inference.batch import Batch, Chunk, plan_batch
from agent.inference.lora import Adapter

ADAPTERS = (None, Adapter("a", 1, {}), Adapter("b", 1, {}))


@st.composite
def chunk_lists(draw: st.DrawFn) -> list[Chunk]:
    slots = draw(st.lists(st.integers(0, 15), unique=True, min_size=1))
    return [
        Chunk(
            slot=slot,
            adapter=ADAPTERS[draw(st.integers(0, 2))],
            start=draw(st.integers(0, 300)),
            token_ids=[slot] * draw(st.sampled_from([1, 1, 1, 7])),
        )
        for slot in slots
    ]


def rows_of(batch: Batch) -> list[range]:
    return [range(part.rows.start, part.rows.stop) for part in batch.parts]


@given(chunk_lists())
def test_every_token_has_one_row_one_attention_part_and_its_own_adapter(chunks: list[Chunk]) -> None:
    """Whatever is batched, rows, attention parts and adapter groups partition it without loss or overlap."""
    batch = plan_batch(chunks)
    total = sum(len(chunk.token_ids) for chunk in chunks)
    assert [row for rows in rows_of(batch) for row in rows] == list(range(total))
    starts = (0, *batch.ends)
    for (start, end), index in zip(pairwise(starts), batch.order, strict=True):
        chunk = chunks[index]
        assert batch.slots[start:end].tolist() == [chunk.slot] * len(chunk.token_ids)
        assert batch.positions[start:end].tolist() == list(range(chunk.start, chunk.end))
        owners = [g.adapter for g in batch.adapter_rows if g.rows.start < end and g.rows.stop > start]
        assert owners == ([] if chunk.adapter is None else [chunk.adapter])


@given(chunk_lists())
def test_attention_parts_see_exactly_the_keys_that_are_theirs(chunks: list[Chunk]) -> None:
    """A row attends to keys up to its own position, in its own slot, and to no other."""
    batch = plan_batch(chunks)
    for part in batch.parts:
        slots = range(part.slots.start, part.slots.stop)
        count = part.rows.stop - part.rows.start
        positions = batch.positions[part.rows].tolist()
        if len(slots) == count:
            assert batch.slots[part.rows].tolist() == list(slots)
        assert max(positions) + 1 == part.num_keys
        if part.mask is None:
            continue
        visible = (part.mask == 0).sum(-1).flatten().tolist()
        assert visible == [position + 1 for position in positions]


def test_single_tokens_of_one_adapter_share_one_call() -> None:
    """A plain decoding batch is one attention call and one adapter group: no gathers."""
    adapter = ADAPTERS[1]
    batch = plan_batch([Chunk(slot=s, adapter=adapter, start=90 + s, token_ids=[1]) for s in range(16)])
    assert len(batch.parts) == 1
    assert [group.rows for group in batch.adapter_rows] == [slice(0, 16)]


def test_a_long_sequence_does_not_make_short_ones_read_its_length() -> None:
    """Rows of very different length are not padded to one another."""
    batch = plan_batch(
        [Chunk(slot=s, adapter=None, start=length, token_ids=[1]) for s, length in enumerate((9, 4000, 9))]
    )
    assert [part.num_keys for part in batch.parts] == [10, 4001, 10]
