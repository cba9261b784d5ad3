"""One step on the model: allotted tokens in, sampled tokens and prompt scores out. Decides nothing about who runs.

The head (a fifth of a small model's arithmetic) is applied only to rows somebody reads: the last row of each
sequence that samples, and the rows of prompts that are scored, the latter in pieces so that (rows, V) stays small.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import torch

from agent.inference.batch import Chunk, plan_batch
from agent.inference.kv_cache import KVCache
from agent.inference.model import DecoderModel
from agent.inference.sampling import choose_token, raw_logprobs, top_logprobs
from agent.inference.scheduler import Allotment
from agent.inference.sequence import Sequence, SequenceEvent

_SCORE_ROWS = 128  # x 49152 x 4 B = 25 MB of logits at once


class ModelRunner:
    """Model and cache together; moves sequences forward by one step."""

    def __init__(self, model: DecoderModel, cache: KVCache) -> None:
        self._model = model
        self._cache = cache

    @torch.inference_mode()
    def run(self, allotments: SequenceOf[Allotment]) -> list[SequenceEvent]:
        """Advance `num_cached` of each sequence; sampled tokens are returned, not yet appended."""
        batch = plan_batch([_chunk(allotment) for allotment in allotments])
        hidden = self._model.forward(batch, self._cache)  # (T, H)
        ordered = [allotments[index] for index in batch.order]
        self._score(ordered, batch.ends, hidden)
        finished = [(a.sequence, end - 1) for a, end in zip(ordered, batch.ends, strict=True) if a.completes]
        for allotment in ordered:
            allotment.sequence.num_cached += allotment.num_tokens
        return self._sample([(s, row) for s, row in finished if s.is_sampling], hidden)

    def release(self, slot: int, num_tokens: int) -> None:
        self._cache.release(slot, num_tokens)

    def _sample(self, rows: list[tuple[Sequence, int]], hidden: torch.Tensor) -> list[SequenceEvent]:
        if not rows:
            return []
        logits = self._model.logits(hidden[[row for _, row in rows]])  # (N, V)
        chosen = [
            choose_token(logits[i], s.sampling, position=len(s.tokens), output_ids=s.output_ids)
            for i, (s, _) in enumerate(rows)
        ]
        logprobs = raw_logprobs(logits, torch.tensor(chosen)).tolist()
        most = max(s.num_top_logprobs for s, _ in rows)
        tops = top_logprobs(logits, most) if most else [()] * len(rows)
        return [
            SequenceEvent(sequence_id=s.id, token_id=token, logprob=logprob, top=top[: s.num_top_logprobs])
            for (s, _), token, logprob, top in zip(rows, chosen, logprobs, tops, strict=True)
        ]

    def _score(self, allotments: SequenceOf[Allotment], ends: SequenceOf[int], hidden: torch.Tensor) -> None:
        """Append to `prompt_logprobs` of each sequence that wants them, in the order of its tokens."""
        wanted = [
            scored
            for allotment, end in zip(allotments, ends, strict=True)
            if allotment.sequence.num_prompt_logprobs is not None
            for scored in _scored_rows(allotment, end - allotment.num_tokens)
        ]
        for first in range(0, len(wanted), _SCORE_ROWS):
            piece = wanted[first : first + _SCORE_ROWS]
            logits = self._model.logits(hidden[[scored.row for scored in piece]])  # (N, V)
            logprobs = raw_logprobs(logits, torch.tensor([scored.target for scored in piece])).tolist()
            most = max(scored.sequence.num_prompt_logprobs or 0 for scored in piece)
            tops = top_logprobs(logits, most) if most else [()] * len(piece)
            for scored, logprob, top in zip(piece, logprobs, tops, strict=True):
                scored.sequence.prompt_logprobs.append(logprob)
                scored.sequence.prompt_top.append(top[: scored.sequence.num_prompt_logprobs])


@dataclass(frozen=True, slots=True)
class _ScoredRow:
    """A row whose logits say how probable the given next token was."""

    sequence: Sequence
    row: int
    target: int


def _scored_rows(allotment: Allotment, first_row: int) -> list[_ScoredRow]:
    """Row of token t predicts token t + 1; the prompt's last token predicts nothing that was given."""
    sequence, start = allotment.sequence, allotment.sequence.num_cached
    targets = sequence.prompt[start + 1 : start + allotment.num_tokens + 1]
    return [_ScoredRow(sequence, first_row + offset, target) for offset, target in enumerate(targets)]


def _chunk(allotment: Allotment) -> Chunk:
    sequence = allotment.sequence
    assert sequence.slot is not None
    start = sequence.num_cached
    token_ids = sequence.tokens[start : start + allotment.num_tokens]
    return Chunk(slot=sequence.slot, adapter=sequence.adapter, start=start, token_ids=token_ids)
