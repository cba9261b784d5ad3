"""/admin, /v1/models, health and metrics, and the passes behind them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agent.clock import Clock
from agent.passes import Kind, Report
from agent.schedules import Schedules
from memory.records import ReflectionPass, Update, Use, utc_now
from memory.states import PassStatus, UpdateStatus
from memory.tokens import Tokenizer
from tests.agent.edge import Edge, add_version, an_edge


@dataclass
class ScriptedPass:
    """A pass that waits until it may end, and then ends well or badly."""

    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False
    ran: list[str] = field(default_factory=list)

    async def __call__(self, *, trigger: str, run_id: str, report: Report) -> None:
        self.ran.append(run_id)
        report("half way", 1, 2)
        await self.may_end.wait()
        if self.fails:
            raise RuntimeError("the disk is full")


@pytest.fixture
def reflecting() -> ScriptedPass:
    return ScriptedPass()


@pytest.fixture
def updating() -> ScriptedPass:
    return ScriptedPass()


@pytest.fixture
async def admin(
    tokenizer: Tokenizer, tmp_path: Path, reflecting: ScriptedPass, updating: ScriptedPass
) -> AsyncIterator[Edge]:
    runs = {Kind.REFLECT: reflecting, Kind.UPDATE: updating}
    async with an_edge(tokenizer, tmp_path / "data", runs=runs) as edge:
        yield edge
        reflecting.may_end.set()
        updating.may_end.set()


async def restarted(edge: Edge) -> Schedules:
    """The schedules as the next daemon on the same store reads them."""
    clock = Clock(store=edge.store, now=utc_now)
    after = Schedules(configured=edge.schedules.configured, clock=clock, store=edge.store)
    await after.restore()
    return after


async def ended(edge: Edge, path: str) -> dict[str, object]:
    while True:
        _, record = await edge.get(path)
        if record["status"] != "running":
            return record
        await asyncio.sleep(0.01)


async def test_a_pass_is_running_from_the_moment_it_is_asked_for(admin: Edge) -> None:
    """Its id can be polled at once, with stage and progress; a second one that waits is the same for all who ask."""
    _, first, _ = await admin.post("/admin/reflect", {})
    while admin.passes.running is None or admin.passes.running.stage != "half way":  # noqa: ASYNC110 - a fake is silent
        await asyncio.sleep(0.01)
    _, record = await admin.get(f"/admin/passes/{first['pass_id']}")
    assert (record["status"], record["stage"], record["done"], record["total"]) == ("running", "half way", 1, 2)
    waiting = [(await admin.post("/admin/reflect", {}))[1]["pass_id"] for _ in range(2)]
    assert waiting[0] == waiting[1] != first["pass_id"]
    _, queued = await admin.get(f"/admin/passes/{waiting[0]}")
    assert (queued["status"], queued["stage"]) == ("running", "queued")


async def test_one_update_at_a_time(admin: Edge, updating: ScriptedPass) -> None:
    """A second request while one runs or waits is a conflict; afterwards it is not."""
    _, first, _ = await admin.post("/admin/update", {})
    status, answer, _ = await admin.post("/admin/update", {})
    assert (status, answer["error"]["code"]) == (409, "update_running")
    updating.may_end.set()
    while admin.passes.running is not None or not updating.ran:  # noqa: ASYNC110 - a fake is silent
        await asyncio.sleep(0.01)
    assert (await admin.post("/admin/update", {}))[0] == 202
    assert updating.ran[0] == first["update_id"]


async def test_a_pass_that_breaks_is_recorded_and_the_daemon_goes_on(
    admin: Edge, reflecting: ScriptedPass, updating: ScriptedPass
) -> None:
    """Whatever a pass raises becomes its reason; the next one runs."""
    for scripted in (reflecting, updating):
        scripted.fails = True
        scripted.may_end.set()
    _, reflect, _ = await admin.post("/admin/reflect", {})
    _, update, _ = await admin.post("/admin/update", {})
    broken = await ended(admin, f"/admin/passes/{reflect['pass_id']}")
    failed = await ended(admin, f"/admin/updates/{update['update_id']}")
    assert broken["status"] == failed["status"] == "failed"
    assert broken["reason"] == failed["reason"] == "RuntimeError: the disk is full"


async def test_what_a_killed_daemon_left_running_is_ended_at_start(edge: Edge) -> None:
    """No record stays running for ever."""
    await edge.store.judgements.begin_pass(ReflectionPass(id="pass_x", trigger="every", started_at=utc_now()))
    await edge.store.updates.begin(Update(id="upd_x", trigger="every", started_at=utc_now(), parent_version=0))
    await edge.passes.end_interrupted()
    left = await edge.store.judgements.get_pass("pass_x")
    update = await edge.store.updates.get("upd_x")
    assert left is not None
    assert update is not None
    assert (left.status, update.status) == (PassStatus.FAILED, UpdateStatus.FAILED)


async def test_schedules_count_from_the_last_run(edge: Edge, tmp_path: Path) -> None:
    """A run leaves behind when it was and after which interaction, for the next start of the daemon."""
    await edge.chat()
    _, started, _ = await edge.post("/admin/reflect", {})
    while edge.passes.find(started["pass_id"]) is not None:  # noqa: ASYNC110 - a fake is silent
        await asyncio.sleep(0.01)
    await edge.chat()
    after = await restarted(edge)
    timer = after.clock.timers[Kind.REFLECT]
    assert timer.last_at is not None
    assert timer.num_new == 1


async def test_rollback_publishes_old_bytes_under_a_new_number(edge: Edge) -> None:
    """The answer names the new version, which is live at once; a version that is not there is a 404."""
    for number in (1, 2):
        await edge.policy.flip(await add_version(edge.store, number))
    status, version, _ = await edge.post("/admin/rollback", {"to": 1})
    assert (status, version["name"]) == (200, "policy@v3")
    assert (await edge.chat())["model"] == "policy@v3"
    _, versions = await edge.get("/admin/versions")
    assert [row["name"] for row in versions["data"] if row["live"]] == ["policy@v3"]
    assert (await edge.post("/admin/rollback", {"to": 9}))[0] == 404
    assert (await edge.post("/admin/rollback", {"to": "1"}))[0] == 400


async def test_interactions_are_listed_short_and_shown_in_full(edge: Edge) -> None:
    """Lists leave token ids out, the single record has them; a limit out of range is refused."""
    answer = await edge.chat()
    _, listed = await edge.get("/admin/interactions?limit=5")
    _, shown = await edge.get(f"/admin/interactions/{answer['headers']['X-Interaction-Id']}")
    assert "token_ids" not in listed["data"][0]
    assert len(shown["token_ids"]) == answer["usage"]["completion_tokens"]
    assert shown["sampling"]["temperature"] == 0.7
    assert (await edge.get("/admin/interactions?limit=0"))[0] == 400
    assert (await edge.get("/admin/interactions/int_nowhere"))[0] == 404


async def test_why_answers_for_every_interaction(edge: Edge) -> None:
    """From "nothing has looked at it" over "not to be learnt from" to the update and version it went into."""
    fresh, private, trained = [
        (await edge.chat(store=store))["headers"]["X-Interaction-Id"] for store in (True, False, True)
    ]
    await edge.store.updates.begin(Update(id="upd_1", trigger="manual", started_at=utc_now(), parent_version=0))
    use = Use(update_id="upd_1", interaction_id=trained, role="trained", reason="asked for less", weight=1.0)
    await edge.store.updates.add_uses([use])
    answers = [(await edge.get(f"/admin/why/{identity}"))[1]["answer"] for identity in (fresh, private, trained)]
    assert "not yet reflected on" in answers[0]
    assert "not to be learnt from" in answers[1]
    assert answers[2] == "trained in update upd_1: asked for less"
    assert (await edge.get("/admin/why/int_nowhere"))[0] == 404


async def test_models_are_listed_and_shown(edge: Edge) -> None:
    """Live names, the base and every version, with what they mean now."""
    await edge.policy.flip(await add_version(edge.store, 1))
    _, listed = await edge.get("/v1/models")
    roots = {card["id"]: card["root"] for card in listed["data"]}
    assert roots == {
        "agent": "policy@v1",
        "policy": "policy@v1",
        "base": "base",
        "policy@v1": "policy@v1",
        "policy@v0": "policy@v0",
    }
    assert (await edge.get("/v1/models/policy"))[1]["object"] == "model"
    status, answer = await edge.get("/v1/models/gpt-9")
    assert (status, answer["error"]["code"]) == (404, "model_not_found")


async def test_health_says_whether_chats_are_admitted(edge: Edge) -> None:
    """Alive is not ready: without an engine /healthz is 200 and /readyz is 503 with the reason."""
    assert (await edge.get("/readyz"))[0] == 200
    edge.engine.is_away = True
    assert await edge.get("/readyz") == (503, {"status": "not ready", "reason": "engine_restarting"})
    assert (await edge.get("/healthz"))[0] == 200


async def test_metrics_count_without_naming_anyone(edge: Edge) -> None:
    """Requests by route and interactions by version; no principal and no text."""
    await edge.chat("What about pelicans?", user="somebody")
    async with edge.http.get(f"{edge.url}/metrics") as response:
        text = await response.text()
    assert 'journeyman_http_requests_total{route="/v1/chat/completions",status="200"} 1.0' in text
    assert "journeyman_live_version 0.0" in text
    assert "somebody" not in text
    assert "pelicans" not in text


async def test_a_schedule_is_read_changed_and_reset(edge: Edge) -> None:
    """A change holds from now on and says which keys it changed; a reset follows the configuration again."""
    _, before = await edge.get("/admin/schedule")
    assert [row["kind"] for row in before["data"]] == ["reflect", "update"]
    status, after, _ = await edge.post("/admin/schedule", {"kind": "reflect", "set": {"every": "6h", "enabled": True}})
    reflect = after["data"][0]
    assert (status, reflect["every"], reflect["changed"]) == (200, "6h", ["enabled", "every"])
    assert reflect["next_due_at"] is not None
    _, reset, _ = await edge.post("/admin/schedule", {"kind": "reflect", "reset": ["every"]})
    assert (reset["data"][0]["every"], reset["data"][0]["changed"]) == ("", ["enabled"])


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "kind"),
        ({"kind": "reflect"}, "set or reset"),
        ({"set": {"every": "6h"}}, "kind"),
        ({"kind": "nightly", "set": {"every": "6h"}}, "kind"),
        ({"kind": "reflect", "set": {"each": "6h"}}, "each"),
        ({"kind": "reflect", "set": {"every": "six hours"}}, "every"),
        ({"kind": "reflect", "set": {"every": 6}}, "set.every"),
        ({"kind": "reflect", "set": {"cron": "99 3 * * mon"}}, "cron"),
        ({"kind": "reflect", "set": {"cron": "0 0 30 2 *"}}, "cron"),
        ({"kind": "reflect", "set": {"timezone": "Mars/Olympus"}}, "timezone"),
        ({"kind": "reflect", "set": {"timezone": "../etc/passwd"}}, "timezone"),
        ({"kind": "reflect", "set": {"quiet_hours": "25:00-07:00"}}, "quiet_hours"),
        ({"kind": "reflect", "set": {"after_interactions": -1}}, "set.after_interactions"),
        ({"kind": "reflect", "set": {"after_interactions": "many"}}, "set.after_interactions"),
        ({"kind": "reflect", "set": {"max_duration": "0s"}}, "max_duration"),
        ({"paused": "maybe"}, "paused"),
    ],
)
async def test_a_schedule_that_means_nothing_changes_nothing(edge: Edge, body: dict[str, object], named: str) -> None:
    """The answer is a 400 that names the key."""
    _, before = await edge.get("/admin/schedule")
    status, answer, _ = await edge.post("/admin/schedule", body)
    assert status == 400, answer
    assert named in answer["error"]["message"]
    assert (await edge.get("/admin/schedule"))[1] == before


async def test_learning_is_paused_as_a_whole(edge: Edge) -> None:
    """Nothing is due by time during a pause, and the pause outlives a restart."""
    await edge.post("/admin/schedule", {"kind": "update", "set": {"every": "1h"}})
    _, paused, _ = await edge.post("/admin/schedule", {"paused": True})
    assert (paused["paused"], paused["data"][1]["next_due_at"], paused["data"][1]["held_by"]) == (True, None, "pause")
    after = await restarted(edge)
    assert after.clock.is_paused
    assert after.in_force(Kind.UPDATE).every == "1h"
    _, resumed, _ = await edge.post("/admin/schedule", {"paused": False})
    assert (resumed["paused"], resumed["data"][1]["held_by"]) == (False, None)


async def test_a_running_pass_can_be_aborted(admin: Edge, reflecting: ScriptedPass) -> None:
    """It ends as failed, saying so, and the next one runs."""
    _, started, _ = await admin.post("/admin/reflect", {})
    while not reflecting.ran:  # noqa: ASYNC110 - a fake is silent
        await asyncio.sleep(0.01)
    status, _, _ = await admin.post(f"/admin/passes/{started['pass_id']}/abort", {})
    assert status == 202
    record = await ended(admin, f"/admin/passes/{started['pass_id']}")
    assert record["status"] == "failed"
    assert "operator" in str(record["reason"])
    status, _, _ = await admin.post(f"/admin/passes/{started['pass_id']}/abort", {})
    assert status == 404
    reflecting.may_end.set()
    _, again, _ = await admin.post("/admin/reflect", {})
    while admin.passes.find(again["pass_id"]) is not None:  # noqa: ASYNC110 - a fake is silent
        await asyncio.sleep(0.01)
    assert reflecting.ran[-1] == again["pass_id"]


async def test_a_pass_that_waits_can_be_taken_back(admin: Edge, updating: ScriptedPass) -> None:
    """It never begins."""
    _, first, _ = await admin.post("/admin/reflect", {})
    _, waiting, _ = await admin.post("/admin/update", {})
    assert (await admin.post(f"/admin/passes/{waiting['update_id']}/abort", {}))[0] == 202
    assert admin.passes.find(waiting["update_id"]) is None
    assert admin.passes.find(first["pass_id"]) is not None
    assert not updating.ran


async def test_a_pass_that_takes_too_long_is_ended(admin: Edge) -> None:
    """max_duration bounds it; the record says so."""
    await admin.post("/admin/schedule", {"kind": "reflect", "set": {"max_duration": "0.05s"}})
    _, started, _ = await admin.post("/admin/reflect", {})
    record = await ended(admin, f"/admin/passes/{started['pass_id']}")
    assert record["status"] == "failed"
    assert "max_duration" in str(record["reason"])


async def test_an_update_that_had_published_before_it_was_stopped_counts_as_published(edge: Edge) -> None:
    """The version is there and live; its update must not say that it failed."""
    await edge.store.updates.begin(Update(id="upd_y", trigger="every", started_at=utc_now(), parent_version=0))
    await edge.store.updates.add_version(replace(await add_version(edge.store, 7), number=8, update_id="upd_y"))
    await edge.passes.end_interrupted()
    update = await edge.store.updates.get("upd_y")
    assert update is not None
    assert (update.status, update.published_version) == (UpdateStatus.PUBLISHED, 8)
