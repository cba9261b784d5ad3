"""The embedder child as its callers see it: texts in, unit vectors out. Knows the wire, not the model."""

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp
import numpy as np
from numpy.typing import NDArray

HEALTH_TIMEOUT_S = 5.0


class EmbedderUnavailable(RuntimeError):
    """The embedder cannot be reached, is loading, or missed its deadline."""


class Embedder(Protocol):
    """What recall and reflection need."""

    @property
    def embed_id(self) -> str | None:
        """Fingerprint of the model behind the vectors; None until it was first heard from."""
        ...

    async def health(self) -> str:
        """The embed_id. Raises EmbedderUnavailable."""
        ...

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> NDArray[np.float32]:
        """(N, D) unit vectors. Raises EmbedderUnavailable."""
        ...


class EmbedderClient:
    """Talks to memory/embedder_server.py over its Unix socket. Close it, or use it as a context manager."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path
        self._session: aiohttp.ClientSession | None = None
        self._embed_id: str | None = None

    @property
    def embed_id(self) -> str | None:
        return self._embed_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def health(self) -> str:
        """The embed_id, once the model is loaded. Raises EmbedderUnavailable."""
        answer = await self._ask("GET", "/health", None, timeout_s=HEALTH_TIMEOUT_S)
        self._embed_id = str(answer["embed_id"])
        return self._embed_id

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> NDArray[np.float32]:
        """(N, D) unit vectors in the order of `texts`. Raises EmbedderUnavailable."""
        body = {"input": list(texts), "encoding_format": "base64"}
        answer = await self._ask("POST", "/v1/embeddings", body, timeout_s=timeout_s)
        self._embed_id = str(answer["model"])
        rows = b"".join(base64.b64decode(entry["embedding"]) for entry in answer["data"])
        return np.frombuffer(rows, dtype="<f4").reshape(len(texts), -1)  # (N, D)

    async def _ask(self, method: str, path: str, body: Any, *, timeout_s: float) -> dict[str, Any]:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(self._socket_path)))
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(method, f"http://embedder{path}", json=body) as response,
            ):
                answer: dict[str, Any] = await response.json()
        except TimeoutError as error:
            raise EmbedderUnavailable(f"the embedder did not answer within {timeout_s} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EmbedderUnavailable(f"the embedder cannot be reached: {error}") from error
        if response.status != 200:
            raise EmbedderUnavailable(f"the embedder answered {response.status}: {answer.get('error')}")
        return answer
