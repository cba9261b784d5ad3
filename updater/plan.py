"""Route: which clusters an update is to change, on what, beside what it must leave alone. Reads the store only.

An interaction has one place in a plan: it teaches, is replayed, selects between candidates, gates, audits, or is left
out with a reason. Nothing is dropped silently.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.records import Example, Interaction, Reflection, Verdict
from memory.states import Method, Remedy, Split, UpdateStatus
from memory.store import Store
from updater.settings import UpdaterSettings

SELECTION_SHARE = 5
"""One in five training cases of a target is kept from training, to choose between candidates."""
MAX_SELECTION = 6
MAX_GATE_PROMPTS = 8
"""Prompts per cluster that the gate samples: what an update may cost on two cores. Of a target's cases those whose
user dissents are left out first."""
MIN_REPLAY_PER_CLUSTER = 2
GOOD_SCORE = 0.5


class Skip(Exception):
    """There is nothing to train, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An example with the interaction it was made of."""

    example: Example
    interaction: Interaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A cluster that the update is to change."""

    cluster_id: str
    label: str
    train: tuple[Case, ...]
    selection: tuple[Case, ...]
    gate: tuple[Case, ...]
    audit: tuple[Case, ...]

    @property
    def hinted(self) -> tuple[Case, ...]:
        return tuple(case for case in self.train if case.example.method is Method.HINDSIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A cluster that must stay as it is."""

    cluster_id: str
    label: str
    replay: tuple[Interaction, ...]
    gate: tuple[Interaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    targets: tuple[Target, ...]
    protected: tuple[Protected, ...]
    left_out: tuple[tuple[str, str], ...] = field(default=())
    """(interaction id, reason)."""


async def make_plan(store: Store, settings: UpdaterSettings) -> Plan:
    """Read the newest reflections and say what to do about them. Raises Skip when no cluster asks for weights."""
    newest = await newest_reflections(store)
    wanted = {row.cluster_id: row for row in newest if row.remedy is Remedy.WEIGHTS}
    if not wanted:
        raise Skip(describe_no_target(newest))
    taught = await already_taught(store)
    members = await cluster_members(store)
    left_out: list[tuple[str, str]] = []
    targets = []
    for cluster_id, reflection in wanted.items():
        examples = await store.judgements.examples(cluster_id=cluster_id)
        cases = await load_cases(store, examples)
        fresh = [case for case in cases if case.interaction.id not in taught]
        left_out += [(case.interaction.id, taught[case.interaction.id]) for case in cases if case not in fresh]
        targets.append(make_target(reflection, fresh))
    kept = [target for target in targets if len(target.train) >= settings.min_examples]
    for target in targets:
        if target not in kept:
            reason = (
                f"its cluster has {len(target.train)} fresh training examples of the {settings.min_examples} needed"
            )
            left_out += [(case.interaction.id, reason) for case in target.train]
    if not kept:
        raise Skip("; ".join(f"{target.label}: {len(target.train)} fresh training examples" for target in targets))
    changed = {target.cluster_id for target in kept}
    labels = {cluster.id: cluster.label for cluster in await store.judgements.clusters()}
    protected = [
        await make_protected(store, cluster_id, labels.get(cluster_id, cluster_id), rows)
        for cluster_id, rows in members.items()
        if cluster_id not in changed
    ]
    return Plan(targets=tuple(kept), protected=tuple(protected), left_out=tuple(left_out))


async def newest_reflections(store: Store) -> list[Reflection]:
    """The last word on each cluster."""
    newest: dict[str, Reflection] = {}
    for reflection in await store.judgements.reflections(limit=500):
        newest.setdefault(reflection.cluster_id, reflection)
    return list(newest.values())


def describe_no_target(reflections: Sequence[Reflection]) -> str:
    if not reflections:
        return "no reflection has run yet"
    said = "; ".join(f"{row.label}: {row.remedy.value} ({row.diagnosis})" for row in reflections[:5])
    return f"no cluster asks for weights. {said}"


async def already_taught(store: Store) -> dict[str, str]:
    """Interactions that a published update trained on, with the reason why they are not trained on again."""
    taught: dict[str, str] = {}
    for update in await store.updates.list(limit=1000):
        if update.status is not UpdateStatus.PUBLISHED:
            continue
        for use in await store.updates.uses_in(update.id):
            if use.role == "trained":
                taught[use.interaction_id] = f"already taught in policy@v{update.published_version}"
    return taught


async def cluster_members(store: Store) -> dict[str, list[tuple[str, Split]]]:
    """Per cluster its (interaction id, split) pairs."""
    members: dict[str, list[tuple[str, Split]]] = defaultdict(list)
    for assignment in (await store.judgements.assignments()).values():
        if assignment.cluster_id is not None:
            members[assignment.cluster_id].append((assignment.interaction_id, assignment.split))
    return members


async def load_cases(store: Store, examples: Sequence[Example]) -> list[Case]:
    """Examples that teach (a hint or a correction), with their interactions. Weight 0 withdraws an earlier example."""
    teaching = [example for example in examples if example.method is not Method.REPLAY and example.weight > 0]
    found = {row.id: row for row in await store.interactions.get_many([row.interaction_id for row in teaching])}
    return [
        Case(example=example, interaction=found[example.interaction_id])
        for example in teaching
        if example.interaction_id in found and found[example.interaction_id].token_ids
    ]


def make_target(reflection: Reflection, cases: Sequence[Case]) -> Target:
    by_split = {split: tuple(case for case in cases if case.example.split is split) for split in Split}
    train = by_split[Split.TRAIN]
    num_selection = min(MAX_SELECTION, len(train) // SELECTION_SHARE)
    return Target(
        cluster_id=reflection.cluster_id,
        label=reflection.label,
        train=train[num_selection:],
        selection=train[:num_selection],
        gate=by_split[Split.GATE],
        audit=by_split[Split.AUDIT],
    )


async def make_protected(store: Store, cluster_id: str, label: str, members: Sequence[tuple[str, Split]]) -> Protected:
    """Replay what was not complained of; the gate asks all gate prompts, whatever was said of the old answer."""
    verdicts = await store.judgements.latest([interaction_id for interaction_id, _ in members])
    rows = {row.id: row for row in await store.interactions.get_many([interaction_id for interaction_id, _ in members])}

    def usable(interaction_id: str) -> bool:
        verdict = verdicts.get(interaction_id)
        failed = isinstance(verdict, Verdict) and verdict.score < GOOD_SCORE
        return rows[interaction_id].learn and bool(rows[interaction_id].token_ids) and not failed

    def golden_first(interaction_id: str) -> bool:
        return not isinstance(verdicts.get(interaction_id), Verdict)

    replay = sorted((i for i, split in members if split is Split.TRAIN and i in rows and usable(i)), key=golden_first)
    gate = [i for i, split in members if split is Split.GATE and i in rows]
    return Protected(
        cluster_id=cluster_id,
        label=label,
        replay=tuple(rows[i] for i in replay),
        gate=tuple(rows[i] for i in gate[:MAX_GATE_PROMPTS]),
    )


def choose_replays(protected: Sequence[Protected], *, wanted: int) -> list[Interaction]:
    """At least two per protected cluster, then round robin up to `wanted`; the praised ones come first."""
    queues = [list(cluster.replay) for cluster in protected if cluster.replay]
    enough = max(wanted, MIN_REPLAY_PER_CLUSTER * len(queues))
    chosen: list[Interaction] = []
    while queues and len(chosen) < enough:
        for queue in queues:
            if len(chosen) < enough:
                chosen.append(queue.pop(0))
        queues = [queue for queue in queues if queue]
    return chosen
