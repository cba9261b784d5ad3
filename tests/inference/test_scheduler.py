"""Who runs, and how much of whom."""

from agent.inference.scheduler import Limits, Scheduler
from agent.inference.sequence import Sequence
from tests.inference.running import make_sequence

LIMITS = Limits(
    num_slots=4,
    kv_tokens=400,
    max_sequence_tokens=200,
    prompt_tokens_per_step=64,
    prompt_tokens_beside_decoding=16,
)


def advance(scheduler: Scheduler) -> list[tuple[Sequence, int]]:
    """One step, as an engine whose model always samples token 1."""
    allotments = [(a.sequence, a.num_tokens) for a in scheduler.schedule()]
    for sequence, num_tokens in allotments:
        sequence.num_cached += num_tokens
        if sequence.num_pending == 0:
            sequence.append(1)
    return allotments


def test_a_request_waits_for_slots_and_for_room() -> None:
    """Neither a fifth sequence nor more tokens than the cache holds is admitted, and both come in later."""
    scheduler = Scheduler(LIMITS)
    large = [make_sequence((1,) * 150, max_tokens=30) for _ in range(3)]
    for sequence in large:
        scheduler.add(sequence)
    advance(scheduler)
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 1)
    scheduler.remove(large[0])
    advance(scheduler)
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 0)
    for _ in range(5):
        scheduler.add(make_sequence((1, 2), max_tokens=4))
    advance(scheduler)
    assert (scheduler.num_running, scheduler.num_waiting) == (4, 3)


def test_lower_priority_number_goes_first() -> None:
    """A live request overtakes waiting background work."""
    scheduler = Scheduler(LIMITS)
    for priority in (20, 10, 0):
        scheduler.add(make_sequence((1,) * 50, priority=priority))
    assert [a.sequence.priority for a in scheduler.schedule()] == [0, 10]


def test_background_work_leaves_slots_to_live_requests() -> None:
    """However much judging waits, a live request is admitted at the next step."""
    scheduler = Scheduler(LIMITS)
    for _ in range(10):
        scheduler.add(make_sequence((1, 2, 3), priority=20))
    advance(scheduler)
    assert scheduler.num_running == 3
    live = make_sequence((1, 2, 3))
    scheduler.add(live)
    assert live in [sequence for sequence, _ in advance(scheduler)]


def test_prompts_are_cut_while_others_decode() -> None:
    """A long prompt takes the whole budget alone, and a bounded part of each step beside a running stream."""
    scheduler = Scheduler(LIMITS)
    stream, long = make_sequence((1, 2, 3), max_tokens=50), make_sequence((1,) * 150, max_tokens=1)
    scheduler.add(stream)
    assert advance(scheduler) == [(stream, 3)]
    scheduler.add(long)
    assert advance(scheduler) == [(stream, 1), (long, 16)]
    scheduler.remove(stream)
    assert advance(scheduler) == [(long, 64)]


def test_removing_a_waiting_request_forgets_it() -> None:
    """An aborted request that never ran leaves no trace."""
    scheduler = Scheduler(LIMITS)
    sequence = make_sequence((1, 2, 3))
    scheduler.add(sequence)
    scheduler.remove(sequence)
    assert scheduler.schedule() == []
    assert (scheduler.num_running, scheduler.num_waiting) == (0, 0)
