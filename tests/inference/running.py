"""Driving an engine by hand, one step at a time."""

from itertools import count

from agent.inference.engine import Engine
from agent.inference.lora import Adapter
from agent.inference.model import DecoderModel
from agent.inference.scheduler import Limits
from agent.inference.sequence import Sequence, SequenceEvent
from memory.completions import PromptScore
from memory.records import SamplingParams

_ids = count()
PROMPTS = tuple(tuple((7 * i + 3 * j) % 380 + 5 for j in range(5 + 9 * i)) for i in range(6))


def make_engine(model: DecoderModel, **limits: int) -> Engine:
    chosen = {"num_slots": 8, "kv_tokens": 2048, "max_sequence_tokens": 512, **limits}
    return Engine(model, Limits(**chosen))


def make_sequence(
    prompt: tuple[int, ...],
    *,
    max_tokens: int = 12,
    temperature: float = 0.0,
    adapter: Adapter | None = None,
    priority: int = 0,
    stop_token_ids: frozenset[int] = frozenset(),
    num_prompt_logprobs: int | None = None,
) -> Sequence:
    sampling = SamplingParams(temperature=temperature, max_tokens=max_tokens, seed=hash(prompt) % 1000)
    return Sequence(
        id=f"seq_{next(_ids)}",
        prompt=prompt,
        sampling=sampling,
        adapter=adapter,
        priority=priority,
        stop_token_ids=stop_token_ids,
        num_prompt_logprobs=num_prompt_logprobs,
    )


def drain(engine: Engine, events: dict[str, list[SequenceEvent]] | None = None) -> dict[str, list[SequenceEvent]]:
    """Step until nothing is left; events by sequence."""
    events = {} if events is None else events
    while engine.has_work:
        for event in engine.step():
            events.setdefault(event.sequence_id, []).append(event)
    return events


def run_all(engine: Engine, sequences: list[Sequence]) -> list[list[SequenceEvent]]:
    for sequence in sequences:
        engine.add(sequence)
    events = drain(engine)
    return [events[sequence.id] for sequence in sequences]


def run_alone(model: DecoderModel, sequence: Sequence) -> list[SequenceEvent]:
    return run_all(make_engine(model), [sequence])[0]


def tokens_of(events: list[SequenceEvent]) -> list[int]:
    return [event.token_id for event in events if event.token_id is not None]


def logprobs_of(events: list[SequenceEvent]) -> list[float]:
    return [event.logprob for event in events if event.logprob is not None]


def max_logprob_gap(left: list[SequenceEvent], right: list[SequenceEvent]) -> float:
    return max(abs(a - b) for a, b in zip(logprobs_of(left), logprobs_of(right), strict=True))


def score_of(events: list[SequenceEvent]) -> PromptScore:
    """Of a sequence that was only scored: its one event."""
    (event,) = events
    assert event.prompt is not None
    return event.prompt
