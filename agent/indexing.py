"""Keeps recall's index up to date while the daemon serves: new interactions are embedded soon after they are stored."""

import asyncio

import structlog

from agent.supervisor import Child
from memory.embedder import EmbedderUnavailable
from memory.recall import Recall

log = structlog.get_logger(__name__)

_RETRY_S = 5.0


async def keep_indexed(recall: Recall, embedder: Child, stored: asyncio.Event) -> None:
    """For ever: what `stored` announces gets its vectors. While the embedder is away, recall goes by words alone."""
    await recall.warm()
    is_failing = False
    while True:
        stored.clear()
        await embedder.wait_ready()
        try:
            await recall.index_pending()
        except EmbedderUnavailable as error:
            if not is_failing:
                log.warning("indexing waits for the embedder", error=str(error))
            is_failing = True
            await asyncio.sleep(_RETRY_S)
            continue
        if is_failing:
            log.info("indexing goes on")
        is_failing = False
        await stored.wait()
