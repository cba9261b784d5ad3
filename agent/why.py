"""Why an interaction was, or was not, trained on: what the store has about it, and one sentence that sums it up."""

from dataclasses import dataclass

from memory.records import (
    Abstention,
    Assignment,
    Cluster,
    Evidence,
    Example,
    Feedback,
    Interaction,
    Use,
    Verdict,
    Version,
)
from memory.states import Outcome, Split
from memory.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What is known of one interaction, from the words about it to the versions it made."""

    interaction: Interaction
    next_turn_id: str | None
    feedback: tuple[Feedback, ...]
    evidence: tuple[Evidence, ...]
    judgement: Verdict | Abstention | None
    assignment: Assignment | None
    cluster: Cluster | None
    examples: tuple[Example, ...]
    uses: tuple[Use, ...]
    versions: tuple[Version, ...]
    """Published by an update that trained on it."""

    @property
    def answer(self) -> str:
        """The first of these that holds, from the last mile back to the first."""
        interaction = self.interaction
        if self.uses:
            newest = self.uses[-1]
            made = f"; it is in {', '.join(version.name for version in self.versions)}" if self.versions else ""
            return f"{newest.role} in update {newest.update_id}: {newest.reason}{made}"
        if not interaction.learn:
            return "left out: it was marked not to be learnt from (store: false, or a key with learn = false)"
        if interaction.outcome is not Outcome.OK:
            return f"left out: it did not end well ({interaction.outcome}, cause {interaction.cause})"
        if self.examples:
            newest_example = self.examples[-1]
            held_out = "held out for measuring" if newest_example.split is not Split.TRAIN else "ready to train on"
            return f"{held_out} as {newest_example.method}; no update has used it yet"
        return _why_no_example(self.judgement, self.assignment)


async def explain(store: Store, interaction_id: str) -> Why | None:
    """None where there is no such interaction."""
    interaction = await store.interactions.get(interaction_id)
    if interaction is None:
        return None
    ids = [interaction_id]
    next_turn = (await store.interactions.next_turns(ids)).get(interaction_id)
    judgement = (await store.judgements.latest(ids)).get(interaction_id)
    assignment = (await store.judgements.assignments(ids)).get(interaction_id)
    cluster = await _cluster_of(store, assignment)
    examples = await _examples_of(store, interaction_id, cluster)
    uses = tuple(await store.updates.uses_of(interaction_id))
    versions = await _versions_from(store, uses)
    return Why(
        interaction=interaction,
        next_turn_id=next_turn.id if next_turn else None,
        feedback=tuple((await store.feedback.for_interactions(ids)).get(interaction_id, ())),
        evidence=tuple((await store.judgements.evidence_for(ids)).get(interaction_id, ())),
        judgement=judgement,
        assignment=assignment,
        cluster=cluster,
        examples=examples,
        uses=uses,
        versions=versions,
    )


async def _cluster_of(store: Store, assignment: Assignment | None) -> Cluster | None:
    if assignment is None or assignment.cluster_id is None:
        return None
    return next((c for c in await store.judgements.clusters() if c.id == assignment.cluster_id), None)


async def _examples_of(store: Store, interaction_id: str, cluster: Cluster | None) -> tuple[Example, ...]:
    if cluster is None:
        return ()
    examples = await store.judgements.examples(cluster_id=cluster.id)
    return tuple(example for example in examples if example.interaction_id == interaction_id)


async def _versions_from(store: Store, uses: tuple[Use, ...]) -> tuple[Version, ...]:
    """Versions of the updates in which it was trained or replayed."""
    taught = {use.update_id for use in uses if use.role in ("trained", "replayed")}
    return tuple(version for version in await store.updates.versions() if version.update_id in taught)


def _why_no_example(judgement: Verdict | Abstention | None, assignment: Assignment | None) -> str:
    if judgement is None and assignment is None:
        return "not yet reflected on: no pass has run since it closed"
    if assignment is not None and assignment.state == "not_applicable":
        return "left out: the user's turn was feedback on the answer before, not a request"
    if isinstance(judgement, Abstention):
        return f"left out: the judge abstained ({judgement.reason})"
    if judgement is None:
        return "left out: nothing bears on its worth yet (no feedback and no telling next turn)"
    if assignment is None or assignment.cluster_id is None:
        return f"left out: judged {judgement.score:.2f}, but it belongs to no cluster yet"
    return (
        f"left out: judged {judgement.score:.2f}, but reflection did not propose it; see the reflection of its cluster"
    )
