"""Sequences through the whole engine: alone, together, joining, leaving."""

from dataclasses import replace

import pytest

from agent.inference.lora import Adapter
from agent.inference.model import DecoderModel
from agent.inference.sequence import Sequence, SequenceEvent
from memory.states import FinishReason
from tests.inference.running import (
    PROMPTS,
    drain,
    logprobs_of,
    make_engine,
    make_sequence,
    max_logprob_gap,
    run_all,
    run_alone,
    score_of,
    tokens_of,
)

TOLERANCE = 1e-4


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_batched_equals_alone(model: DecoderModel, adapters: tuple[Adapter, Adapter], temperature: float) -> None:
    """Neighbours, of whatever version, change neither the tokens of a sequence nor its logprobs."""
    versions = (None, adapters[0], adapters[1])

    def sequences() -> list[Sequence]:
        return [
            make_sequence(prompt, temperature=temperature, adapter=versions[i % 3]) for i, prompt in enumerate(PROMPTS)
        ]

    together = run_all(make_engine(model), sequences())
    for events, sequence in zip(together, sequences(), strict=True):
        alone = run_alone(model, sequence)
        assert tokens_of(events) == tokens_of(alone)
        assert max_logprob_gap(events, alone) < TOLERANCE


def test_joining_mid_flight_equals_alone(model: DecoderModel) -> None:
    """A sequence that joins a running batch, its prompt cut in pieces, is what it would have been alone."""
    engine = make_engine(model, prompt_tokens_beside_decoding=7)
    early, late = make_sequence(PROMPTS[1], max_tokens=30), make_sequence(PROMPTS[5])
    engine.add(early)
    events = {early.id: [event for _ in range(5) for event in engine.step()]}
    engine.add(late)
    drain(engine, events)
    for sequence in (early, late):
        alone = run_alone(model, make_sequence(sequence.prompt, max_tokens=sequence.sampling.max_tokens))
        assert tokens_of(events[sequence.id]) == tokens_of(alone)
        assert max_logprob_gap(events[sequence.id], alone) < TOLERANCE


def test_cached_decoding_equals_one_pass(model: DecoderModel, adapters: tuple[Adapter, Adapter]) -> None:
    """Logprobs reported while sampling are those that scoring prompt and completion in one pass gives."""
    sequence = make_sequence(PROMPTS[3], max_tokens=40, temperature=1.0, adapter=adapters[0])
    sampled = run_alone(model, sequence)
    whole = make_sequence(tuple(sequence.tokens), max_tokens=0, adapter=adapters[0], num_prompt_logprobs=0)
    events = run_alone(model, whole)
    assert events[-1].finish_reason is FinishReason.LENGTH
    assert score_of(events).top == ()
    expected = score_of(events).logprobs[len(PROMPTS[3]) - 1 :]
    assert logprobs_of(sampled) == pytest.approx(expected, abs=TOLERANCE)


def test_a_stream_resumed_from_its_own_tokens_continues_identically(model: DecoderModel) -> None:
    """Prompt and tokens already sent, under the same seed, give the tokens that would have followed."""
    whole = make_sequence(PROMPTS[2], max_tokens=20, temperature=1.0)
    tokens = tokens_of(run_alone(model, whole))
    resumed = make_sequence((*PROMPTS[2], *tokens[:8]), max_tokens=12, temperature=1.0)
    resumed.sampling = replace(whole.sampling, max_tokens=12)
    assert tokens_of(run_alone(model, resumed)) == tokens[8:]


def test_prompt_scores_come_in_pieces_and_with_alternatives(model: DecoderModel) -> None:
    """Scoring many prompts at once, cut over steps, equals scoring each alone; N alternatives are reported."""
    engine = make_engine(model, prompt_tokens_per_step=20)
    events = run_all(engine, [make_sequence(p, max_tokens=0, num_prompt_logprobs=3) for p in PROMPTS])
    for prompt, own in zip(PROMPTS, events, strict=True):
        together = score_of(own)
        alone = score_of(run_alone(model, make_sequence(prompt, max_tokens=0, num_prompt_logprobs=3)))
        assert together.logprobs == pytest.approx(alone.logprobs, abs=TOLERANCE)
        assert len(together.logprobs) == len(together.top) == len(prompt) - 1
        assert {len(row) for row in together.top} == {3}


def test_stop_ids_end_a_sequence_and_are_part_of_it(model: DecoderModel) -> None:
    """The stop id is the last token reported."""
    tokens = tokens_of(run_alone(model, make_sequence(PROMPTS[0])))
    stop = tokens[4]
    events = run_alone(model, make_sequence(PROMPTS[0], stop_token_ids=frozenset([stop])))
    assert tokens_of(events) == tokens[: tokens.index(stop) + 1]
    assert events[-1].finish_reason is FinishReason.STOP


def test_more_requests_than_slots_all_end(model: DecoderModel) -> None:
    """Requests beyond slots and room wait, and every one is served."""
    engine = make_engine(model, num_slots=2, kv_tokens=150, max_sequence_tokens=100)
    events = run_all(engine, [make_sequence(prompt) for prompt in PROMPTS * 2])
    assert all(len(tokens_of(own)) == 12 for own in events)


def test_an_abort_frees_the_slot_and_disturbs_nobody(model: DecoderModel) -> None:
    """After an abort the waiting one runs, and the others go on as if alone."""
    engine = make_engine(model, num_slots=2)
    stays, leaves, waits = (make_sequence(prompt, max_tokens=20) for prompt in PROMPTS[:3])
    for sequence in (stays, leaves, waits):
        engine.add(sequence)
    events: dict[str, list[SequenceEvent]] = {stays.id: [], leaves.id: []}
    for _ in range(4):
        for event in engine.step():
            events[event.sequence_id].append(event)
    engine.abort(leaves.id)
    engine.abort(leaves.id)
    drain(engine, events)
    assert len(events[leaves.id]) < 20
    for sequence in (stays, waits):
        alone = run_alone(model, make_sequence(sequence.prompt, max_tokens=20))
        assert tokens_of(events[sequence.id]) == tokens_of(alone)


def test_a_slot_whose_pages_were_given_back_serves_again(model: DecoderModel) -> None:
    """A long sequence's memory is released, and the next one in its slot is computed right."""
    engine = make_engine(model, num_slots=1, max_sequence_tokens=1600)
    long = make_sequence(tuple(5 + i % 300 for i in range(1200)), max_tokens=2)
    short = make_sequence(PROMPTS[4])
    events = run_all(engine, [long, short])[1]
    assert tokens_of(events) == tokens_of(run_alone(model, make_sequence(PROMPTS[4])))
