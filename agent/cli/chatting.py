"""`journeyman chat`: a conversation at the terminal, with /good, /bad and /fix on the last answer."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import httpx
import typer

from agent.cli.connection import Connection, connected
from agent.cli.display import STDERR, STDOUT
from agent.cli.failures import CommandFailed
from agent.cli.options import DataDirOption, chosen_data_dir

_HELP = "/good [words]  /bad words  /fix the answer it should have given  /new  /quit"


@dataclass(slots=True)
class Conversation:
    """What was said, and under which ids."""

    model: str
    messages: list[dict[str, str]] = field(default_factory=list)
    session_id: str | None = None
    interaction_id: str | None = None
    """Of the last answer: what feedback is about."""


def chat(
    message: Annotated[str | None, typer.Argument(help="Ask this one thing and leave.")] = None,
    *,
    model: Annotated[str, typer.Option(help="agent, policy, policy@vN or base.")] = "agent",
    data_dir: DataDirOption = None,
) -> None:
    """Chat with the running daemon; answers stream as they are written."""
    conversation = Conversation(model=model)
    with connected(chosen_data_dir(data_dir)) as daemon:
        if message is not None:
            _say(daemon, conversation, message)
            return
        STDERR.print(f"{_HELP}\n", style="dim", markup=False)
        for line in _typed_lines():
            if line == "/quit":
                return
            try:
                _take(daemon, conversation, line)
            except CommandFailed as refusal:
                STDERR.print(str(refusal), style="red", markup=False)


def _typed_lines() -> Iterator[str]:
    """What the person types until the end of input."""
    while True:
        try:
            line = STDOUT.input("[bold]> [/bold]").strip()
        except EOFError:
            return
        if line:
            yield line


def _take(daemon: Connection, conversation: Conversation, line: str) -> None:
    command, _, words = line.partition(" ")
    match command:
        case "/good":
            _rate(daemon, conversation, {"score": 1.0} | ({"comment": words} if words else {}))
        case "/bad":
            _rate(daemon, conversation, {"score": -1.0} | ({"comment": words} if words else {}))
        case "/fix" if words:
            _rate(daemon, conversation, {"score": -1.0, "correction": words})
        case "/new":
            conversation.messages.clear()
            conversation.session_id = conversation.interaction_id = None
        case _ if command.startswith("/"):
            STDERR.print(_HELP, style="dim", markup=False)
        case _:
            _say(daemon, conversation, line)


def _rate(daemon: Connection, conversation: Conversation, said: dict[str, object]) -> None:
    if conversation.interaction_id is None:
        STDERR.print("There is no answer yet.", style="dim")
        return
    daemon.post("/v1/feedback", {"interaction_id": conversation.interaction_id, "channel": "cli", **said})
    STDERR.print(f"noted for {conversation.interaction_id}", style="dim")


def _say(daemon: Connection, conversation: Conversation, text: str) -> None:
    """One turn: the answer appears as it comes, then who gave it."""
    messages = [*conversation.messages, {"role": "user", "content": text}]
    body = {"model": conversation.model, "messages": messages, "stream": True}
    headers = {"X-Session-Id": conversation.session_id} if conversation.session_id else {}
    with daemon.stream("/v1/chat/completions", body, headers=headers) as response:
        answer = _print_pieces(response)
        conversation.session_id = response.headers.get("X-Session-Id", conversation.session_id)
        conversation.interaction_id = response.headers.get("X-Interaction-Id")
        version = response.headers.get("X-Policy-Version", "")
    conversation.messages = [*messages, {"role": "assistant", "content": answer}]
    STDOUT.print()
    STDERR.print(f"{version}  {conversation.interaction_id}", style="dim", markup=False)


def _print_pieces(response: httpx.Response) -> str:
    pieces: list[str] = []
    for line in response.iter_lines():
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        event = json.loads(line.removeprefix("data: "))
        if "error" in event:
            raise CommandFailed(event["error"]["message"])
        for choice in event["choices"]:
            piece = choice["delta"].get("content") or ""
            pieces.append(piece)
            STDOUT.print(piece, end="", markup=False, soft_wrap=True)
    return "".join(pieces)
