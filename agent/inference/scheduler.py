"""Who runs, and how many tokens of whom go into the next step. Knows counts and priorities, no tensors.

A request waits until a slot and room for all the tokens it may come to hold are free, so nothing that runs is ever
preempted. Each step takes one token of every sequence that is sampling; what remains of the step's budget goes to
prompts, best priority first, so a long prompt or a pile of scoring delays running streams by a bounded amount only.
"""

import heapq
from dataclasses import dataclass
from itertools import count

from agent.inference.sequence import Sequence

_LIVE_PRIORITY = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the engine may hold and do at once."""

    num_slots: int
    """Sequences that run at the same time."""
    kv_tokens: int
    """Tokens that the running sequences may come to hold, all together."""
    max_sequence_tokens: int
    """Prompt and completion of one request."""
    prompt_tokens_per_step: int = 512
    """Prompt tokens in one step when nobody is sampling: large enough for the matrix products' best rate."""
    prompt_tokens_beside_decoding: int = 128
    """The same while streams run: bounds how long a step keeps them waiting."""

    @property
    def num_background_slots(self) -> int:
        """Slots open to judging, gate and practice: a live request must not wait for one of those to end."""
        return max(1, self.num_slots - self.num_slots // 4)


@dataclass(frozen=True, slots=True)
class Allotment:
    """Tokens `sequence.tokens[sequence.num_cached :][: num_tokens]` go into the step."""

    sequence: Sequence
    num_tokens: int

    @property
    def completes(self) -> bool:
        """Whether all the sequence's tokens are through after this step."""
        return self.num_tokens == self.sequence.num_pending


class Scheduler:
    """The waiting line and the running set."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._arrivals = count()
        self._waiting: list[tuple[int, int, Sequence]] = []
        self._running: list[Sequence] = []
        self._free_slots = list(range(limits.num_slots))

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._running)

    def add(self, sequence: Sequence) -> None:
        heapq.heappush(self._waiting, (sequence.priority, next(self._arrivals), sequence))

    def schedule(self) -> list[Allotment]:
        """Admit what fits, then share out one step."""
        while self._waiting and self._fits(self._waiting[0][2]):
            self._admit(heapq.heappop(self._waiting)[2])
        decoding = [Allotment(s, 1) for s in self._running if s.num_pending == 1]
        limits = self.limits
        budget = limits.prompt_tokens_beside_decoding if decoding else limits.prompt_tokens_per_step
        allotments = decoding
        for sequence in self._running:
            if sequence.num_pending > 1 and budget > 0:
                allotments.append(Allotment(sequence, min(sequence.num_pending, budget)))
                budget -= allotments[-1].num_tokens
        return allotments

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence that ended or whose client left, running or waiting."""
        if sequence.slot is None:
            self._waiting = [entry for entry in self._waiting if entry[2] is not sequence]
            heapq.heapify(self._waiting)
            return
        self._running.remove(sequence)
        heapq.heappush(self._free_slots, sequence.slot)

    def _fits(self, sequence: Sequence) -> bool:
        if not self._free_slots:
            return False
        background = sum(running.priority > _LIVE_PRIORITY for running in self._running)
        if sequence.priority > _LIVE_PRIORITY and background >= self.limits.num_background_slots:
            return False
        reserved = sum(running.num_reserved for running in self._running)
        return reserved + sequence.num_reserved <= self.limits.kv_tokens

    def _admit(self, sequence: Sequence) -> None:
        sequence.slot = heapq.heappop(self._free_slots)
        self._running.append(sequence)
        self._running.sort(key=lambda running: running.priority)  # stable: arrival order within a priority
