"""The engine: sequences in, events out, one `step()` at a time. Single-threaded; knows no HTTP and no names.

Sequence says what is wanted, Scheduler who runs, ModelRunner what comes out. Requests join and leave between any
two steps.
"""

from agent.inference.kv_cache import KVCache
from agent.inference.model import DecoderModel
from agent.inference.runner import ModelRunner
from agent.inference.scheduler import Limits, Scheduler
from agent.inference.sequence import Sequence, SequenceEvent
from memory.states import FinishReason


class Engine:
    """Owns every sequence from `add` to its last event."""

    def __init__(self, model: DecoderModel, limits: Limits) -> None:
        cache = KVCache(model.architecture, num_slots=limits.num_slots, slot_tokens=limits.max_sequence_tokens)
        self._runner = ModelRunner(model, cache)
        self._scheduler = Scheduler(limits)
        self._sequences: dict[str, Sequence] = {}

    @property
    def limits(self) -> Limits:
        return self._scheduler.limits

    @property
    def num_running(self) -> int:
        return self._scheduler.num_running

    @property
    def num_waiting(self) -> int:
        return self._scheduler.num_waiting

    @property
    def has_work(self) -> bool:
        return bool(self._sequences)

    def add(self, sequence: Sequence) -> None:
        self._sequences[sequence.id] = sequence
        self._scheduler.add(sequence)

    def abort(self, sequence_id: str) -> None:
        """Drop a sequence whose client left; one that has ended already is no error."""
        sequence = self._sequences.get(sequence_id)
        if sequence is not None:
            self._retire(sequence)

    def step(self) -> list[SequenceEvent]:
        """Run the model once over what is due."""
        allotments = self._scheduler.schedule()
        completing = [a for a in allotments if a.completes]
        sampled = {event.sequence_id: event for event in self._runner.run(allotments)}
        return [self._advance(a.sequence, sampled.get(a.sequence.id)) for a in completing]

    def _advance(self, sequence: Sequence, sampled: SequenceEvent | None) -> SequenceEvent:
        """Append what was sampled, attach the prompt's scores to the first event, and retire what has ended."""
        prompt = sequence.prompt_score if len(sequence.tokens) == len(sequence.prompt) else None
        if sampled is None or sampled.token_id is None:
            self._retire(sequence)
            return SequenceEvent(sequence_id=sequence.id, prompt=prompt, finish_reason=FinishReason.LENGTH)
        finish_reason = sequence.append(sampled.token_id)
        if finish_reason is not None:
            self._retire(sequence)
        return SequenceEvent(
            sequence_id=sequence.id,
            token_id=sampled.token_id,
            logprob=sampled.logprob,
            top=sampled.top,
            prompt=prompt,
            finish_reason=finish_reason,
        )

    def _retire(self, sequence: Sequence) -> None:
        del self._sequences[sequence.id]
        self._scheduler.remove(sequence)
        if sequence.slot is not None:
            self._runner.release(sequence.slot, sequence.num_cached)
