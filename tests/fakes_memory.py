"""An embedder without a model: texts that share words point the same way."""

import asyncio
import hashlib
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory.embedder import EmbedderUnavailable
from memory.lexical import STOP_WORDS, stem


class FakeEmbedder:
    """Satisfies memory.embedder.Embedder; can be away, or slow, or change its mind about who it is."""

    def __init__(self, *, dim: int = 64, model: str = "fake") -> None:
        self.dim = dim
        self.model = model
        self.is_away = False
        self.delay_s = 0.0
        self.num_texts = 0
        """How many texts it has embedded."""
        self._embed_id: str | None = None

    @property
    def embed_id(self) -> str | None:
        return self._embed_id

    async def health(self) -> str:
        if self.is_away:
            raise EmbedderUnavailable("away")
        self._embed_id = self.model
        return self.model

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> NDArray[np.float32]:
        await self.health()
        if self.delay_s:
            await asyncio.sleep(min(self.delay_s, timeout_s))
        if self.delay_s > timeout_s:
            raise EmbedderUnavailable("too slow")
        self.num_texts += len(texts)
        return np.stack([self._vector(text) for text in texts])  # (N, D)

    def _vector(self, text: str) -> NDArray[np.float32]:
        """A unit vector: the sum of one random direction per content word."""
        words = [word for word in re.findall(r"[^\W_]+", text.lower()) if word not in STOP_WORDS] or ["nothing"]
        total = np.sum([self._direction(stem(word)) for word in words], axis=0)
        return np.asarray(total / np.linalg.norm(total), dtype=np.float32)

    def _direction(self, word: str) -> NDArray[np.float64]:
        seed = int.from_bytes(hashlib.sha256(f"{self.model} {word}".encode()).digest()[:8], "big")
        return np.random.default_rng(seed).standard_normal(self.dim)
