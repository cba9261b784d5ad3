"""From one row of logits to one token. Draws depend on (seed, position) alone, never on the batch.

Order of the filters as in vLLM: penalties and bias on the logits, then temperature, min_p, top_k, top_p. What is
reported is the raw distribution: log-softmax of the unmodified logits. The one uniform number of a draw is the
first of a Philox stream (Salmon et al. 2011) with the seed as key and the token's absolute position as counter, so
a stream that is resumed from the tokens already sent draws what it would have drawn.
"""

from collections import Counter
from collections.abc import Sequence as SequenceOf

import numpy as np
import torch

from memory.completions import TopLogprobs
from memory.records import SamplingParams

_GREEDY_BELOW = 1e-5  # temperatures that would overflow the logits mean greedy


def choose_token(
    logits: torch.Tensor, params: SamplingParams, *, position: int, output_ids: SequenceOf[int] = ()
) -> int:
    """The token at absolute `position`, from (V,) raw logits."""
    adjusted = _penalise(logits, params, output_ids)
    if params.temperature < _GREEDY_BELOW:
        return int(adjusted.argmax())
    probabilities = torch.softmax(adjusted / params.temperature, dim=-1)  # (V,)
    token_ids = None
    if params.min_p > 0:
        probabilities = probabilities * (probabilities >= params.min_p * probabilities.max())
    if 0 < params.top_k < len(probabilities) or params.top_p < 1:
        probabilities, token_ids = _most_probable(probabilities, params)
    index = _draw(probabilities, _uniform(params.seed, position))
    return index if token_ids is None else int(token_ids[index])


def raw_logprobs(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """(N,) log p of (N,) tokens under the unmodified (N, V) logits."""
    return logits.gather(1, token_ids[:, None])[:, 0] - logits.logsumexp(-1)


def top_logprobs(logits: torch.Tensor, count: int) -> list[TopLogprobs]:
    """The `count` most probable tokens of each (N, V) row, with their raw logprobs."""
    values, indices = logits.topk(count, dim=-1)
    values = values - logits.logsumexp(-1, keepdim=True)
    pairs = zip(indices.tolist(), values.tolist(), strict=True)
    return [tuple(zip(row_ids, row_values, strict=True)) for row_ids, row_values in pairs]


def _penalise(logits: torch.Tensor, params: SamplingParams, output_ids: SequenceOf[int]) -> torch.Tensor:
    """OpenAI's presence and frequency penalties over the sampled tokens, and logit_bias; a copy where they act."""
    has_penalty = bool(output_ids) and (params.presence_penalty != 0 or params.frequency_penalty != 0)
    if not has_penalty and not params.logit_bias:
        return logits
    logits = logits.clone()
    if has_penalty:
        counts = Counter(output_ids)
        penalties = [params.presence_penalty + params.frequency_penalty * count for count in counts.values()]
        logits[list(counts)] -= torch.tensor(penalties, dtype=logits.dtype)
    for token_id, bias in params.logit_bias:
        logits[token_id] += bias
    return logits


def _most_probable(probabilities: torch.Tensor, params: SamplingParams) -> tuple[torch.Tensor, torch.Tensor]:
    """(K,) probabilities in falling order and their ids, after top_k and then top_p."""
    size = len(probabilities)
    wanted = params.top_k if 0 < params.top_k < size else size
    # Sorting a whole vocabulary costs ten times a partial sort, and top_p rarely needs more than its head.
    first = min(wanted, 1024) if params.top_p < 1 else wanted
    values, indices = probabilities.topk(first)
    kept = values.sum() if wanted == first else _mass(probabilities, wanted)
    if params.top_p < 1 and first < wanted and float(values.sum()) < params.top_p * float(kept):
        values, indices = probabilities.topk(wanted)
    if params.top_p < 1:
        before = values.cumsum(0) - values  # mass of the more probable ones; the token that crosses top_p stays
        values = values * (before < params.top_p * kept)
    return values, indices


def _mass(probabilities: torch.Tensor, wanted: int) -> torch.Tensor:
    return probabilities.sum() if wanted == len(probabilities) else probabilities.topk(wanted).values.sum()


def _draw(weights: torch.Tensor, uniform: float) -> int:
    """Index drawn in proportion to (N,) weights by inverting their distribution; summed in double precision."""
    cumulative = weights.cumsum(0, dtype=torch.float64)
    target = uniform * float(cumulative[-1])
    index = int(torch.searchsorted(cumulative, target, right=True))
    # Rounding may put the target on the total itself: then the last index that can be drawn at all.
    return index if index < len(weights) else int(weights.nonzero()[-1])


def _uniform(seed: int, position: int) -> float:
    """In [0, 1)."""
    return float(np.random.Generator(np.random.Philox(key=seed % 2**64, counter=position)).random())
