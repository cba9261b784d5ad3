"""Does the engine compute what it should, however requests happen to be batched?

On real prompts and the starter model in fp32: batched against alone, joined mid-flight against alone, cached
decoding against one pass, versions mixed in one batch against alone, adapters against peft's own logits; and two
tiny model families against transformers. What must hold: the same greedy tokens (but for ties closer than the
tolerance), and logprobs within 1e-4 of each other.

`SABOTAGE=slots` lets rows of a decoding batch read their neighbour's cache, `SABOTAGE=positions` shifts the
positions of batches by one, `SABOTAGE=adapter` halves what adapters add. `QUICK=1`: 12 prompts, fewer tokens.
"""

import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from rich.progress import track
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from agent.config import model_cache_dir
from agent.demo.questions import everyday_questions
from agent.inference.batch import Batch, Chunk, plan_batch
from agent.inference.engine import Engine
from agent.inference.kv_cache import KVCache
from agent.inference.lora import Adapter, Factors, load_adapter
from agent.inference.model import DecoderModel
from agent.inference.scheduler import Limits
from agent.inference.sequence import Sequence, SequenceEvent
from agent.sources import prepare
from agent.tables import Settings
from benchmarks.common import QUICK, Figure, console, finish, print_table, sabotage
from memory.records import Message, SamplingParams
from memory.tokens import Tokenizer
from tests.tiny import make_tiny_adapter, make_tiny_model

TOLERANCE = 1e-4
PEFT_TOLERANCE = 5e-4
"""Against other implementations whole logit rows are compared, far tails included, so errors are larger."""
NUM_PROMPTS, NUM_TOKENS = (12, 16) if QUICK else (50, 32)
LIMITS = Limits(num_slots=16, kv_tokens=16384, max_sequence_tokens=2048)
SABOTAGES = ("slots", "positions", "adapter")

Prompt = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """What one prompt came to."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    gaps: tuple[float, ...]
    """Logprob of the most probable token minus that of the second: how near a greedy choice was to a tie."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison over many prompts."""

    name: str
    num_items: int
    num_different: int
    """Items whose tokens differ where there was no tie."""
    max_gap: float
    """Largest |difference in logprob| over tokens with equal histories."""
    limit: float = TOLERANCE

    @property
    def ok(self) -> bool:
        return self.num_different == 0 and self.max_gap <= self.limit


class SabotagedModel(DecoderModel):
    """Computes batches of several rows wrongly, in the one way that was asked for."""

    broken: str | None = None

    def forward(self, batch: Batch, cache: KVCache) -> torch.Tensor:
        if self.broken == "positions" and len(batch.parts) > 1:
            batch = replace(batch, positions=(batch.positions - 1).clamp(min=0))
        if self.broken == "slots" and len(set(batch.slots.tolist())) > 1:
            batch = replace(batch, slots=batch.slots.roll(1))
        return super().forward(batch, cache)


def main() -> int:
    started = time.perf_counter()
    broken = sabotage(SABOTAGES)
    torch.set_num_threads(1)
    transformers_logging.disable_progress_bar()
    settings = Settings()
    directory = prepare(settings.policy.source, model_cache_dir(settings), report=lambda *_: None).directory
    model = SabotagedModel.load(directory)
    prompts = real_prompts(Tokenizer.load(directory))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapter_dirs = [write_adapter(directory, Path(folder) / str(seed), seed=seed) for seed in (1, 2)]
        adapters = [weakened(load_adapter(path, model.architecture), broken) for path in adapter_dirs]
        checks = engine_checks(model, prompts, adapters, broken)
        checks.append(check_peft(model, prompts, adapters[0], directory, adapter_dirs[0]))
        checks += [check_family(family, Path(folder) / family, broken) for family in ("llama", "qwen2")]
    rows = [(c.name, c.num_items, c.num_different, f"{c.max_gap:.1e}", f"{c.limit:.0e}", c.ok) for c in checks]
    columns = ("", "items", "tokens differ", "max |Δ logprob|", "at most", "ok")
    print_table(f"{NUM_PROMPTS} prompts, {NUM_TOKENS} greedy tokens each, fp32", columns, rows)
    figure = Figure(
        name="engine_equivalence",
        value=max(check.max_gap for check in checks),
        target=f"same greedy tokens; |difference in logprob| <= {TOLERANCE} (whole rows: {PEFT_TOLERANCE})",
        ok=all(check.ok for check in checks),
        details={"sabotage": broken, **{check.name: [check.num_different, check.max_gap] for check in checks}},
    )
    return finish(figure, started=started)


def real_prompts(tokenizer: Tokenizer) -> list[Prompt]:
    questions = everyday_questions()
    stride = len(questions) // NUM_PROMPTS
    chosen = questions[::stride][:NUM_PROMPTS]
    return [tokenizer.render_chat([Message(role="user", content=question)]) for question in chosen]


def engine_checks(
    model: SabotagedModel, prompts: list[Prompt], adapters: list[Adapter], broken: str | None
) -> list[Check]:
    """Everything that compares the engine with itself; what runs alone is never sabotaged."""
    versions = [None, *adapters]
    model.broken = None
    alone = [run(model, [prompt])[0] for prompt in progress("alone", prompts)]
    alone_mixed = [run(model, [p], [versions[i % 3]])[0] for i, p in enumerate(progress("versions alone", prompts))]
    model.broken = broken
    batched = run(model, prompts)
    joined = run(model, prompts, stagger=3)
    mixed = run(model, prompts, [versions[i % 3] for i in range(len(prompts))])
    scored = score(model, [prompt + trace.token_ids for prompt, trace in zip(prompts, batched, strict=True)])
    completions = [
        replace(trace, logprobs=logprobs[len(prompt) - 1 :])
        for prompt, trace, logprobs in zip(prompts, batched, scored, strict=True)
    ]
    return [
        compare("batched vs alone", alone, batched),
        compare("joined mid-flight vs alone", alone, joined),
        compare("three versions in a batch vs alone", alone_mixed, mixed),
        compare("cached decoding vs one pass", completions, batched),
    ]


def run(
    model: DecoderModel, prompts: SequenceOf[Prompt], adapters: SequenceOf[Adapter | None] = (), *, stagger: int = 0
) -> list[Trace]:
    """Greedy completions; with `stagger`, one more prompt joins every so many steps."""
    engine, names = Engine(model, LIMITS), count()
    sampling = SamplingParams(temperature=0.0, max_tokens=NUM_TOKENS)
    versions = adapters or [None] * len(prompts)
    sequences = [
        Sequence(id=str(next(names)), prompt=prompt, sampling=sampling, adapter=adapter, num_top_logprobs=2)
        for prompt, adapter in zip(prompts, versions, strict=True)
    ]
    waiting, events = list(sequences), dict[str, list[SequenceEvent]]()
    while waiting or engine.has_work:
        for sequence in waiting[: 1 if stagger else None]:
            engine.add(sequence)
        waiting = waiting[1:] if stagger else []
        for _ in range(max(1, stagger)):
            collect(engine, events)
    return [_trace(events[sequence.id]) for sequence in sequences]


def score(model: DecoderModel, sequences: SequenceOf[Prompt]) -> list[tuple[float, ...]]:
    """Logprobs of every token but the first, many sequences at a time."""
    engine, events = Engine(model, LIMITS), dict[str, list[SequenceEvent]]()
    for index, tokens in enumerate(sequences):
        sampling = SamplingParams(max_tokens=0)
        engine.add(Sequence(id=str(index), prompt=tokens, sampling=sampling, num_prompt_logprobs=0))
    while engine.has_work:
        collect(engine, events)
    scores = [events[str(index)][0].prompt for index in range(len(sequences))]
    return [found.logprobs for found in scores if found is not None]


def collect(engine: Engine, events: dict[str, list[SequenceEvent]]) -> None:
    if engine.has_work:
        for event in engine.step():
            events.setdefault(event.sequence_id, []).append(event)


def compare(name: str, expected: SequenceOf[Trace], found: SequenceOf[Trace]) -> Check:
    num_different, max_gap = 0, 0.0
    for left, right in zip(expected, found, strict=True):
        pairs = list(zip(left.token_ids, right.token_ids, strict=True))
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        num_different += same < len(pairs) and left.gaps[same] > TOLERANCE
        # The token where they part was still chosen after equal histories, but is another token: not comparable.
        differences = [abs(a - b) for a, b in zip(left.logprobs[:same], right.logprobs[:same], strict=True)]
        max_gap = max(max_gap, *differences, 0.0)
    return Check(name, len(expected), num_different, max_gap)


def check_peft(
    model: DecoderModel, prompts: SequenceOf[Prompt], adapter: Adapter, directory: Path, adapter_dir: Path
) -> Check:
    """Whole rows of logprobs under an adapter, ours against peft on transformers."""
    reference = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(directory), str(adapter_dir)).eval()
    few = prompts[:8]
    gaps = [row_gap(whole_rows(model, prompt, adapter), reference, prompt) for prompt in progress("peft", few)]
    return Check("adapter vs peft's own logits", len(few), 0, max(gaps), PEFT_TOLERANCE)


def check_family(family: str, folder: Path, broken: str | None) -> Check:
    """A random model of another family, with an adapter, against transformers and peft."""
    directory = make_tiny_model(folder / "model", family=family, seed=3)
    adapter_dir = make_tiny_adapter(folder / "adapter", directory, seed=4, scale=0.1)
    model = DecoderModel.load(directory)
    adapter = weakened(load_adapter(adapter_dir, model.architecture), broken)
    prompts = [tuple((17 * i + 5 * j) % 380 + 3 for j in range(40)) for i in range(4)]
    base = AutoModelForCausalLM.from_pretrained(directory).eval()
    gaps = [row_gap(whole_rows(model, prompt, None), base, prompt) for prompt in prompts]
    reference = PeftModel.from_pretrained(base, str(adapter_dir)).eval()
    gaps += [row_gap(whole_rows(model, prompt, adapter), reference, prompt) for prompt in prompts]
    return Check(f"tiny {family} vs transformers", 2 * len(prompts), 0, max(gaps), PEFT_TOLERANCE)


@torch.inference_mode()
def row_gap(rows: torch.Tensor, reference: torch.nn.Module, prompt: Prompt) -> float:
    """Largest difference anywhere in (T, V) logprobs."""
    return float((reference(torch.tensor([prompt])).logits[0].log_softmax(-1) - rows).abs().max())


def whole_rows(model: DecoderModel, prompt: Prompt, adapter: Adapter | None) -> torch.Tensor:
    """(T, V) logprobs after every prefix of `prompt`."""
    cache = KVCache(model.architecture, num_slots=1, slot_tokens=len(prompt))
    chunk = Chunk(slot=0, adapter=adapter, start=0, token_ids=prompt)
    with torch.inference_mode():
        return model.logits(model.forward(plan_batch([chunk]), cache)).log_softmax(-1)


def write_adapter(model_dir: Path, directory: Path, *, seed: int) -> Path:
    """A random adapter as peft itself writes it, strong enough to change answers."""
    torch.manual_seed(seed)
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = LoraConfig(r=8, lora_alpha=16, target_modules=names, init_lora_weights=False, task_type="CAUSAL_LM")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(model_dir), config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.mul_(0.1)
    model.save_pretrained(str(directory))
    return directory


def weakened(adapter: Adapter, broken: str | None) -> Adapter:
    if broken != "adapter":
        return adapter
    halves = {where: Factors(factors.down, factors.up * 0.5) for where, factors in adapter.factors.items()}
    return replace(adapter, factors=halves)


def progress(name: str, items: SequenceOf[Prompt]) -> Iterable[Prompt]:
    return track(items, description=name, console=console, transient=True)


def _trace(events: SequenceOf[SequenceEvent]) -> Trace:
    return Trace(
        token_ids=tuple(event.token_id for event in events if event.token_id is not None),
        logprobs=tuple(event.logprob for event in events if event.logprob is not None),
        gaps=tuple(event.top[0][1] - event.top[1][1] for event in events),
    )


if __name__ == "__main__":
    sys.exit(main())
