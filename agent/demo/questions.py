"""What the simulated people ask: everyday questions and requests for stories, shipped as data.

Knows nothing of what a good answer would be.
"""

import json
from importlib.resources import files


def everyday_questions() -> tuple[str, ...]:
    """Our own list first, then the opening questions of OpenAssistant conversations."""
    oasst = tuple(str(json.loads(line)["text"]) for line in _lines("oasst_questions.jsonl"))
    return _lines("questions.txt") + oasst


def story_requests() -> tuple[str, ...]:
    return _lines("stories.txt")


def _lines(name: str) -> tuple[str, ...]:
    text = files("agent.demo").joinpath("data", name).read_text(encoding="utf-8")
    return tuple(line.strip() for line in text.splitlines() if line.strip())
