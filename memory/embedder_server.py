"""The embedder child: `python -m memory.embedder_server --model-dir D --socket S`.

A sentence-transformers model behind a Unix socket, in the shape of OpenAI's embeddings API. It listens at once and
says 503 until the model is loaded. One text after another on a low priority: answering people comes first.
"""

import argparse
import asyncio
import base64
import hashlib
import importlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from memory.child import die_with_parent, lower_priority
from memory.files import sha256_of

NICENESS = 10
MAX_TEXTS = 256
MAX_CHARACTERS = 20_000  # of one text: far more than the model reads, little enough to tokenize at once
BATCH = 8  # texts a forward pass, and
BATCH_CHARACTERS = 2_000  # of them together: a person's question waits behind one pass, not behind a whole request
MAX_BODY_BYTES = 16 * 2**20
_FINGERPRINTED = (".json", ".safetensors", ".txt", ".model")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model and what identifies its vectors."""

    model: Any
    embed_id: str
    dim: int


class EmbedderServer:
    """Answers while `loaded` is set, one batch at a time."""

    def __init__(self) -> None:
        self.loaded: Loaded | None = None
        self._turn = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/health", self.health), web.post("/v1/embeddings", self.embeddings)]

    async def health(self, request: web.Request) -> web.Response:
        del request
        if self.loaded is None:
            return _refusal(503, "the model is loading")
        return web.json_response({"status": "ok", "embed_id": self.loaded.embed_id, "dim": self.loaded.dim})

    async def embeddings(self, request: web.Request) -> web.Response:
        if self.loaded is None:
            return _refusal(503, "the model is loading")
        try:
            body = await request.json()
            texts = _parse_texts(body)
        except ValueError as error:
            return _refusal(400, str(error))
        vectors = await self._embed(self.loaded.model, texts)  # (N, D)
        encode = _as_base64 if body.get("encoding_format") == "base64" else _as_list
        data = [{"object": "embedding", "index": n, "embedding": encode(row)} for n, row in enumerate(vectors)]
        return web.json_response({"object": "list", "model": self.loaded.embed_id, "data": data})

    async def _embed(self, model: Any, texts: list[str]) -> NDArray[np.float32]:
        parts = []
        for batch in split_into_batches(texts):
            async with self._turn:
                parts.append(await asyncio.to_thread(_encode, model, batch))
        return np.concatenate(parts)


async def serve(model_dir: Path, socket: Path) -> None:
    """Listen, load, answer until SIGTERM or SIGINT. A model that cannot be loaded ends the process."""
    server = EmbedderServer()
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.add_routes(server.routes())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await web.UnixSite(runner, str(socket)).start()
        server.loaded = await asyncio.to_thread(load, model_dir)
        await stop.wait()
    finally:
        await runner.cleanup()


def load(model_dir: Path) -> Loaded:
    """The model from a sentence-transformers directory, on the CPU. Raises FileNotFoundError when it is none."""
    if not (model_dir / "modules.json").is_file():
        raise FileNotFoundError(f"{model_dir} is not a sentence-transformers model: it has no modules.json")
    # Imported here because it takes seconds, in which /health already says that the model is loading.
    model = importlib.import_module("sentence_transformers").SentenceTransformer(
        str(model_dir), device="cpu", local_files_only=True
    )
    dim = len(_encode(model, ["warm"])[0])
    return Loaded(model, fingerprint(model_dir, dim), dim)


def fingerprint(model_dir: Path, dim: int) -> str:
    """sha256 (16 digits) over all files that decide what the vectors are: weights, vocabulary, settings."""
    digest = hashlib.sha256(f"unit vectors, {dim}\n".encode())
    for path in sorted(model_dir.rglob("*")):
        if path.suffix in _FINGERPRINTED and path.is_file():
            digest.update(f"{path.relative_to(model_dir)} {sha256_of(path)}\n".encode())
    return digest.hexdigest()[:16]


def split_into_batches(texts: list[str]) -> list[list[str]]:
    """Consecutive texts, few enough and short enough to be one forward pass; a long text is a batch of its own."""
    batches: list[list[str]] = []
    num_characters = 0
    for text in texts:
        num_characters += len(text)
        if not batches or len(batches[-1]) == BATCH or num_characters > BATCH_CHARACTERS:
            batches.append([])
            num_characters = len(text)
        batches[-1].append(text)
    return batches


def main() -> None:
    parser = argparse.ArgumentParser(prog="memory.embedder_server")
    parser.add_argument("--model-dir", type=Path, required=True)
    parser.add_argument("--socket", type=Path, required=True)
    arguments = parser.parse_args()
    die_with_parent()
    lower_priority(NICENESS)
    os.umask(0o077)  # the socket is for our own user
    os.environ["HF_HUB_OFFLINE"] = "1"  # a model directory is complete: nothing is looked up
    asyncio.run(serve(arguments.model_dir, arguments.socket))


def _encode(model: Any, texts: list[str]) -> NDArray[np.float32]:
    """(N, D) unit vectors."""
    vectors = model.encode(texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
    return np.asarray(vectors, dtype=np.float32)


def _parse_texts(body: Any) -> list[str]:
    given = body.get("input") if isinstance(body, dict) else None
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("input must be a text or a list of texts")
    if len(texts) > MAX_TEXTS:
        raise ValueError(f"at most {MAX_TEXTS} texts, not {len(texts)}")
    return [text[:MAX_CHARACTERS] for text in texts]


def _as_base64(row: NDArray[np.float32]) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()


def _as_list(row: NDArray[np.float32]) -> list[float]:
    values: list[float] = row.tolist()
    return values


def _refusal(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status)


if __name__ == "__main__":
    main()
