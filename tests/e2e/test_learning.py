"""The whole loop on the real starter model: chat, reply in own words, reflect, update, publish, answer better.

A direction is asserted, not a rate: rates over three seeds are benchmarks/demo_learning.py's. Takes minutes.
"""

from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from agent.demo.daemon_process import running_daemon
from agent.demo.driver import DaemonClient, measure, reflect, serve_log, update
from agent.demo.oracle import Answer
from agent.demo.scenario import Kind, Scenario, audit_items, make_scenario
from agent.demo.users import QUESTION_USERS, Wish
from agent.sources import PreparedModel

SEED = 3
NUM_QUESTIONS = 32
NUM_STORIES = 16
FAST = {
    "JOURNEYMAN_UPDATER__MAX_PASSES": "2",
    "JOURNEYMAN_UPDATER__GATE_SAMPLES": "2",
    "JOURNEYMAN_UPDATER__EVERY": "",
    "JOURNEYMAN_REFLECTION__EVERY": "",
}


@pytest.mark.timeout(1500)
async def test_the_agent_learns_what_its_users_ask_for(starter_model: PreparedModel, tmp_path: Path) -> None:
    """Questions get shorter answers under the published version, stories stay, and every answer names its version."""
    # The fixture fetches it here, so that the daemon's own start-up deadline is not spent on that.
    assert starter_model.directory.is_dir()
    scenario = make_scenario(SEED, num_questions=NUM_QUESTIONS, num_stories=NUM_STORIES)
    async with running_daemon(tmp_path / "data", settings=FAST) as daemon, DaemonClient(daemon.url) as client:
        visits = await serve_log(client, agreed(scenario))
        passed = await reflect(client)
        end = await update(client)
        assert passed["status"] == "done", passed
        assert end["status"] == "published", end["reason"]
        before = await answers(client, "policy@v0")
        after = await answers(client, "policy@v1")
        why = [await client.get(f"/admin/why/{visit.interaction_id}") for visit in visits]
    assert {answer.model for answer in after[Kind.QUESTION]} == {"policy@v1"}
    assert length(after[Kind.QUESTION]) < 0.8 * length(before[Kind.QUESTION])
    assert length(after[Kind.STORY]) > 0.8 * length(before[Kind.STORY])
    assert any(use["role"] == "trained" for row in why for use in row["uses"])
    assert all(row["answer"] for row in why), "every interaction can answer why"


def agreed(scenario: Scenario) -> Scenario:
    """Without the user who wants the contrary: which of a small log is held out for the gate is chance, and too few of
    the others may be left. That such users are found is for benchmarks/demo_learning.py, with a larger log."""
    contrary = {user.name for user in QUESTION_USERS if user.wish is not Wish.SHORT}
    return replace(scenario, visits=tuple(visit for visit in scenario.visits if visit.user not in contrary))


async def answers(client: DaemonClient, model: str) -> dict[Kind, list[Answer]]:
    items = audit_items()
    return {
        Kind.QUESTION: await measure(client, model, items.questions[:12], samples=1, seed=1),
        Kind.STORY: await measure(client, model, items.stories[:8], samples=1, seed=1),
    }


def length(given: list[Answer]) -> float:
    return fmean(answer.num_tokens for answer in given)
