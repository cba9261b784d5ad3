"""The demonstration's driver over real sockets, against a daemon of a few lines."""

from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestServer

from agent.demo.bystander import bystander
from agent.demo.driver import DaemonClient, DaemonRefused, measure, reflect, serve_log, update
from agent.demo.oracle import summarise
from agent.demo.scenario import Channel, make_scenario
from tests.demo.daemon_double import DaemonDouble


@pytest.fixture
def daemon() -> DaemonDouble:
    return DaemonDouble()


@pytest.fixture
async def client(daemon: DaemonDouble) -> AsyncIterator[DaemonClient]:
    async with TestServer(daemon.app()) as server, DaemonClient(str(server.make_url("/"))) as connected:
        yield connected


async def test_log_is_served_with_every_reaction(daemon: DaemonDouble, client: DaemonClient) -> None:
    """Each visit is a request and its reaction: a next turn in the same session, or feedback on that interaction."""
    scenario = make_scenario(0)
    visits = await serve_log(client, scenario)
    assert [served.visit for served in visits] == list(scenario.visits)
    num_next_turns = sum(visit.channel is Channel.NEXT_TURN for visit in scenario.visits)
    assert len(daemon.chats) == len(scenario.visits) + num_next_turns
    assert len(daemon.feedback) == len(scenario.visits) - num_next_turns
    follow_ups = [chat for chat in daemon.chats if len(chat["messages"]) == 3]
    assert len(follow_ups) == num_next_turns
    assert {chat["messages"][1]["content"] for chat in follow_ups} == {"At length."}
    assert len({session for session in daemon.sessions if session}) == len(scenario.visits)


async def test_audit_is_kept_out_of_learning_and_draws_anew(daemon: DaemonDouble, client: DaemonClient) -> None:
    """An audit asks each prompt so many times, each time with a seed of its own, and says store: false."""
    prompts = ["What is fog?", "Write a short story about a fox."]
    answers = await measure(client, "policy@v1", prompts, samples=2, seed=100)
    assert [answer.prompt for answer in answers] == [prompts[0]] * 2 + [prompts[1]] * 2
    assert sorted(chat["seed"] for chat in daemon.chats) == [100, 101, 102, 103]
    assert all(chat["store"] is False for chat in daemon.chats)
    assert summarise(answers).num_short == 2
    again = await measure(client, "policy@v1", prompts, samples=2, seed=100)
    assert [a.num_tokens for a in again] == [a.num_tokens for a in answers]


async def test_passes_are_waited_for(client: DaemonClient) -> None:
    """A pass and an update are polled to their end, and progress is told on the way."""
    heard: list[tuple[str, int, int]] = []
    done = await reflect(client, on_progress=lambda *progress: heard.append(progress))
    end = await update(client, on_progress=lambda *progress: heard.append(progress))
    assert done["status"] == "done"
    assert (end["status"], end["published_version"]) == ("published", 1)
    assert ("updating: train", 1, 3) in heard


async def test_refusal_is_an_error_that_says_what(daemon: DaemonDouble, client: DaemonClient) -> None:
    """A refused request ends the log with the daemon's own words."""
    daemon.refuse_chats = True
    with pytest.RaisesGroup(pytest.RaisesExc(DaemonRefused, match="draining")):
        await serve_log(client, make_scenario(0, num_questions=1, num_stories=0))


async def test_bystander_counts_answers_and_losses(daemon: DaemonDouble, client: DaemonClient) -> None:
    """A bystander says which version answered and counts a refusal as lost."""
    async with bystander(client) as attendance:
        await measure(client, "policy", ["What is fog?"], samples=1, seed=1)
    assert attendance.answers_by_version["policy@v0"] >= 1
    daemon.refuse_chats = True
    async with bystander(client) as attendance:
        pass
    assert len(attendance.failures) == 1
