"""Doubles for reflection: an embedder of hashed words, and a runner that counts what it runs."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.supervisor import ChildRunner
from memory.embedder import EmbedderUnavailable
from reflection.words import content_words

DIMENSION = 256


class WordEmbedder:
    """Hashed words and two kinds of request: enough for a map. Can be made unavailable."""

    def __init__(self) -> None:
        self.is_up = True
        self.num_texts = 0

    @property
    def embed_id(self) -> str:
        return "words-1"

    async def health(self) -> str:
        if not self.is_up:
            raise EmbedderUnavailable("the embedder is down")
        return self.embed_id

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> NDArray[np.float32]:
        self.num_texts += len(texts)
        return np.stack([embed_words(text) for text in texts])


def embed_words(text: str) -> NDArray[np.float32]:
    """(256,) unit vector: one axis for questions, one for stories, and a little of every content word."""
    words = sorted(content_words(text)) or ["?"]
    vector = np.zeros(DIMENSION, np.float32)
    vector[0] = 3.0 * text.rstrip().endswith("?")
    vector[1] = 3.0 * ("story" in words or "tale" in words)
    for word in words:
        digest = hashlib.sha256(word.encode()).digest()
        vector[2 + digest[0] % (DIMENSION - 2)] += 1.0 if digest[1] % 2 else -1.0
    return vector / max(float(np.linalg.norm(vector)), 1e-6)


class CountedRunner(ChildRunner):
    """The daemon's own runner of real children; it counts them, and can spoil a child's directory before it starts."""

    def __init__(self, *, spoil: Callable[[Path], None] | None = None) -> None:
        super().__init__()
        self.num_runs = 0
        self._spoil = spoil

    async def __call__(
        self,
        module: str,
        workdir: Path,
        *,
        threads: int,
        niceness: int,
        timeout_s: float,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self.num_runs += 1
        if self._spoil is not None:
            await asyncio.to_thread(self._spoil, workdir)
        await super().__call__(
            module, workdir, threads=threads, niceness=niceness, timeout_s=timeout_s, on_line=on_line
        )
