"""One pass of reflection, top to bottom: closed interactions -> kinds, splits, verdicts, reflections, examples.

Knows neither the policy's weights nor what anyone's wish means. Everything it decides is written to the store; the
updater reads it there.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from memory.child import ChildFailed, RunChild
from memory.embedder import Embedder, EmbedderUnavailable
from memory.records import Abstention, Assignment, Cluster, Example, Interaction, ReflectionPass, Verdict, new_id
from memory.states import PassStatus
from memory.store import Store
from reflection.curate import Origin, curate
from reflection.evidence import gather_evidence
from reflection.failure_modes import Judged, modes_of, shared_phrases
from reflection.judge import judge
from reflection.kinds import KindDeps, Placement, Report, place_requests, request_vectors
from reflection.next_turn import exchange_of, read_next_turn
from reflection.report import build_reflection
from reflection.settings import ReflectionSettings
from reflection.splits import group_duplicates, split_groups
from reflection.support import choose_remedy, is_failed, weigh

_SEEN_KEY = "reflection.seen"
FEEDBACK_TURN = "its turn was feedback on the answer before it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectDeps:
    """What a pass is given."""

    store: Store
    embedder: Embedder
    run_child: RunChild
    settings: ReflectionSettings
    work_dir: Path
    """Passes make directories of their own below it."""
    now: Callable[[], datetime]


async def run_pass(deps: ReflectDeps, *, trigger: str, pass_id: str, report: Report) -> ReflectionPass:
    """Reflect once. The pass is recorded from its start and ends as done, skipped or failed with its reason."""
    started = ReflectionPass(id=pass_id, trigger=trigger, started_at=deps.now())
    await deps.store.judgements.begin_pass(started)
    try:
        ended = await _reflect(deps, started, report)
    except (ChildFailed, EmbedderUnavailable) as error:  # a fault of ours that may pass: the next pass tries again
        ended = replace(started, status=PassStatus.FAILED, reason=str(error))
    ended = replace(ended, ended_at=deps.now())
    await deps.store.judgements.end_pass(ended)
    return ended


async def _reflect(deps: ReflectDeps, started: ReflectionPass, report: Report) -> ReflectionPass:
    closed = await deps.store.interactions.closed(now=started.started_at, idle_s=deps.settings.idle_s)
    seen = await _fingerprint(deps.store, closed)
    if seen == await deps.store.state.get(_SEEN_KEY):
        return replace(started, status=PassStatus.SKIPPED, reason="nothing new since the last pass")
    requests = [interaction for interaction in closed if is_request(interaction)]
    placement = await _place(deps, closed, requests, started, report)
    decided, num_verdicts, num_abstentions = await _judge(deps, closed, requests, started, report)
    await _reflect_on_clusters(deps, closed, placement, decided=decided, started=started, report=report)
    await deps.store.state.set(_SEEN_KEY, seen)
    return replace(
        started,
        status=PassStatus.DONE,
        reason=_remarks(closed, requests, placement, deps.settings),
        num_interactions=len(closed),
        num_verdicts=num_verdicts,
        num_abstentions=num_abstentions,
    )


def is_request(interaction: Interaction) -> bool:
    """The user asked for something, instead of only talking about the answer before."""
    exchange = exchange_of(interaction.messages)
    if exchange is None:
        return bool(interaction.last_user_text.strip())
    return read_next_turn(exchange).is_request


async def _place(
    deps: ReflectDeps,
    closed: Sequence[Interaction],
    requests: Sequence[Interaction],
    started: ReflectionPass,
    report: Report,
) -> Placement:
    """Kinds, then groups and splits, written before anything is judged."""
    kinds = KindDeps(
        store=deps.store,
        embedder=deps.embedder,
        embed_id=await deps.embedder.health(),
        run_child=deps.run_child,
        settings=deps.settings,
        work_dir=deps.work_dir / started.id,
    )
    places = await deps.store.judgements.assignments([interaction.id for interaction in closed])
    vectors = await request_vectors(kinds, requests, report)
    placement = await place_requests(kinds, requests, vectors, places=places, now=started.started_at, report=report)
    groups = group_duplicates(closed, [one.id for one in requests], vectors)
    splits = split_groups(groups, placement.cluster_of, places)
    asked = {one.id for one in requests}
    rows = []
    for one in closed:
        group, split = splits.get(one.id) or (places[one.id].group_id, places[one.id].split)
        row = Assignment(
            interaction_id=one.id,
            group_id=group,
            split=split,
            cluster_id=placement.cluster_of.get(one.id),
            state=placement.state(one.id) if one.id in asked else "not_applicable",
            similarity=placement.similarity.get(one.id),
        )
        rows.append(row)
    await deps.store.judgements.put_assignments([row for row in rows if places.get(row.interaction_id) != row])
    return placement


async def _judge(
    deps: ReflectDeps,
    closed: Sequence[Interaction],
    requests: Sequence[Interaction],
    started: ReflectionPass,
    report: Report,
) -> tuple[dict[str, Verdict | Abstention], int, int]:
    """What stands of every request, and how many verdicts and abstentions are new."""
    ids = [interaction.id for interaction in closed]
    feedback = await deps.store.feedback.for_interactions(ids)
    next_turns = await deps.store.interactions.next_turns(ids)
    found = gather_evidence(closed, feedback=feedback, next_turns=next_turns, now=started.started_at)
    await deps.store.judgements.add_evidence(found)
    evidence = await deps.store.judgements.evidence_for(ids)
    decided = await deps.store.judgements.latest(ids)
    fresh: list[Verdict | Abstention] = []
    for done, interaction in enumerate(requests, start=1):
        rows = evidence.get(interaction.id, [])
        before = decided.get(interaction.id)
        if before is None or before.evidence_ids != tuple(row.id for row in rows):
            fresh.append(judge(interaction, rows, pass_id=started.id, now=started.started_at))
        report("judge", done, len(requests))
    verdicts = [row for row in fresh if isinstance(row, Verdict)]
    abstentions = [row for row in fresh if isinstance(row, Abstention)]
    await deps.store.judgements.add_verdicts(verdicts)
    await deps.store.judgements.add_abstentions(abstentions)
    decided.update((row.interaction_id, row) for row in fresh)
    return decided, len(verdicts), len(abstentions)


async def _reflect_on_clusters(
    deps: ReflectDeps,
    closed: Sequence[Interaction],
    placement: Placement,
    *,
    decided: Mapping[str, Verdict | Abstention],
    started: ReflectionPass,
    report: Report,
) -> None:
    """One reflection per cluster, its examples, and the cluster's trend."""
    members: dict[str, list[Interaction]] = defaultdict(list)
    for one in closed:
        members[placement.cluster_of.get(one.id) or ""].append(one)
    clusters = [cluster for cluster in await deps.store.judgements.clusters() if cluster.id in members]
    judged = [
        Judged(interaction=one, verdict=verdict)
        for one in closed
        if one.id in placement.cluster_of and isinstance(verdict := decided.get(one.id), Verdict)
    ]
    phrases = shared_phrases(judged)
    feedback_turns = _feedback_turns(closed, placement)
    earlier: dict[str, list[Example]] = defaultdict(list)
    for example in await deps.store.judgements.examples():
        earlier[placement.cluster_of.get(example.interaction_id) or example.cluster_id].append(example)
    for done, cluster in enumerate(clusters, start=1):
        whole = ClusterView(
            cluster=cluster,
            members=members[cluster.id],
            judged=[item for item in judged if placement.cluster_of[item.interaction.id] == cluster.id],
            judged_elsewhere=[item for item in judged if placement.cluster_of[item.interaction.id] != cluster.id],
            phrases=phrases,
            earlier=earlier[cluster.id],
            num_feedback_turns=feedback_turns[cluster.id],
        )
        await _reflect_on(deps, whole, decided, started)
        report("reflect", done, len(clusters))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """All that bears on one cluster in one pass."""

    cluster: Cluster
    members: Sequence[Interaction]
    judged: Sequence[Judged]
    judged_elsewhere: Sequence[Judged]
    phrases: Sequence[str]
    earlier: Sequence[Example]
    num_feedback_turns: int
    """Turns that only talked about this cluster's answers."""


async def _reflect_on(
    deps: ReflectDeps, view: ClusterView, decided: Mapping[str, Verdict | Abstention], started: ReflectionPass
) -> None:
    origin = Origin(reflection_id=new_id("ref"), cluster_id=view.cluster.id, now=started.started_at)
    places = await deps.store.judgements.assignments([member.id for member in view.members])
    support = weigh(view.members, decided)
    modes = modes_of(view.judged, view.phrases, [item for item in view.judged_elsewhere if not is_failed(item.verdict)])
    curation = curate(view.members, decided, places, earlier=view.earlier, origin=origin, settings=deps.settings)
    if view.num_feedback_turns:
        curation = replace(curation, left_out=(*curation.left_out, (FEEDBACK_TURN, view.num_feedback_turns)))
    remedy = choose_remedy(support, deps.settings)
    row = build_reflection(view.cluster, support, modes, curation, pass_id=started.id, origin=origin, remedy=remedy)
    before = await deps.store.judgements.reflections(cluster_id=view.cluster.id, limit=1)
    await deps.store.judgements.add_reflections([row])
    await deps.store.judgements.add_examples(curation.changed)
    if before and before[0].score is not None and row.score is not None:
        trend = row.score - before[0].score
        await deps.store.judgements.put_clusters([replace(view.cluster, trend=trend, updated_at=started.started_at)])


def _feedback_turns(closed: Sequence[Interaction], placement: Placement) -> Counter[str]:
    """Per cluster, closed turns that were feedback on one of its answers."""
    clusters = (placement.cluster_of.get(one.parent_id or "") for one in closed if one.id not in placement.cluster_of)
    return Counter(cluster for cluster in clusters if cluster is not None)


def _remarks(
    closed: Sequence[Interaction], requests: Sequence[Interaction], placement: Placement, settings: ReflectionSettings
) -> str | None:
    """What the operator should know of a pass that is done."""
    remarks = []
    if not placement.has_map:
        remarks.append(f"{len(requests)} requests wait for the first map, which needs {settings.min_map_items}")
    num_outliers = sum(placement.state(one.id) == "outlier" for one in requests)
    if num_outliers:
        remarks.append(f"{num_outliers} requests are like no cluster")
    if len(closed) > len(requests):
        remarks.append(f"{len(closed) - len(requests)} turns were feedback and not requests")
    return "; ".join(remarks) or None


async def _fingerprint(store: Store, closed: Sequence[Interaction]) -> str:
    """Changes when there is anything new to reflect on."""
    newest = closed[-1].id if closed else "none"
    return f"{len(closed)}:{newest}:{await store.feedback.count()}"
