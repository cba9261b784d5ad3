"""The embedder child over its socket, with a tiny real model."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.child import PARENT_PIPE_FD
from memory.embedder import EmbedderClient, EmbedderUnavailable
from memory.embedder_server import BATCH, BATCH_CHARACTERS, fingerprint, split_into_batches
from tests.memory.tiny_embedder import HIDDEN, make_tiny_embedder

START_LIMIT_S = 120.0  # importing the libraries on a busy machine


@dataclass(frozen=True)
class RunningChild:
    process: subprocess.Popen[bytes]
    socket: Path
    parent_end: int
    """Closing it is the death of the parent, to the child."""


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningChild]:
    """One process for all tests: starting it is what takes time."""
    model_dir = make_tiny_embedder(tmp_path_factory.mktemp("embedder") / "model")
    with tempfile.TemporaryDirectory() as short:  # a socket's path has at most 107 bytes
        socket = Path(short) / "s"
        read_end, write_end = os.pipe()
        command = [
            sys.executable,
            "-m",
            "memory.embedder_server",
            "--model-dir",
            str(model_dir),
            "--socket",
            str(socket),
        ]
        environment = {**os.environ, PARENT_PIPE_FD: str(read_end)}
        with (
            (tmp_path_factory.mktemp("log") / "log").open("wb") as log,
            subprocess.Popen(command, env=environment, pass_fds=[read_end], stdout=log, stderr=log) as process,
        ):
            os.close(read_end)
            yield RunningChild(process, socket, write_end)
            process.kill()


@pytest.fixture
async def client(child: RunningChild) -> AsyncIterator[EmbedderClient]:
    """Ready: the child's model is loaded."""
    async with EmbedderClient(child.socket) as client:
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                await client.health()
                break
            except EmbedderUnavailable:
                assert child.process.poll() is None, "the embedder ended"
                assert time.monotonic() < deadline, "the embedder does not become ready"
                await asyncio.sleep(0.2)
        yield client


async def test_texts_become_unit_vectors(client: EmbedderClient) -> None:
    """In order, of length one, and the same alone as in a long list."""
    texts = ["what is a glacier", "the dog", "", "boil a egg " * 40] + ["slow river of ice"] * 20
    vectors = await client.embed(texts, timeout_s=30)
    assert vectors.shape == (len(texts), HIDDEN)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(await client.embed([texts[3]], timeout_s=30), vectors[3:4], atol=1e-5)
    assert abs(vectors[0] @ vectors[1]) < 0.999


async def test_many_callers_at_once(client: EmbedderClient) -> None:
    """Each gets its own vectors."""
    words = ["glacier", "dog", "egg", "ice"]
    alone = [await client.embed([word], timeout_s=30) for word in words]
    together = await asyncio.gather(*(client.embed([word], timeout_s=30) for word in words * 3))
    for n, vectors in enumerate(together):
        np.testing.assert_allclose(vectors, alone[n % 4], atol=1e-5)


async def test_it_knows_itself(child: RunningChild, client: EmbedderClient) -> None:
    """Health and every answer name the model, so that vectors of two models are never mixed."""
    assert client.embed_id == await client.health()
    connector = aiohttp.UnixConnector(str(child.socket))
    async with aiohttp.ClientSession(connector=connector) as session:
        async with session.get("http://embedder/health") as response:
            health = await response.json()
        async with session.post("http://embedder/v1/embeddings", json={"input": "dog"}) as response:
            answer = await response.json()
    assert health == {"status": "ok", "embed_id": client.embed_id, "dim": HIDDEN}
    assert answer["model"] == client.embed_id
    assert answer["data"][0]["object"] == "embedding"
    expected = (await client.embed(["dog"], timeout_s=30))[0]
    np.testing.assert_allclose(answer["data"][0]["embedding"], expected, atol=1e-6)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"input": []}', b'{"input": [1]}', b'{"input": null}'])
async def test_a_wrong_request_is_refused(child: RunningChild, client: EmbedderClient, body: bytes) -> None:
    """400 with a reason, and the child lives on."""
    connector = aiohttp.UnixConnector(str(child.socket))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(
            "http://embedder/v1/embeddings", data=body, headers={"Content-Type": "application/json"}
        ) as response,
    ):
        assert response.status == 400
        assert (await response.json())["error"]["message"]
    await client.health()


async def test_a_missed_deadline_is_one_error(client: EmbedderClient) -> None:
    """Who cannot wait is told so, and the next caller is served."""
    with pytest.raises(EmbedderUnavailable, match="did not answer"):
        await client.embed(["glacier river " * 200] * 64, timeout_s=0.001)
    assert (await client.embed(["dog"], timeout_s=30)).shape == (1, HIDDEN)


async def test_nobody_there_is_the_same_error(tmp_path: Path) -> None:
    """Not started, crashed or stopped: all the same to a caller."""
    async with EmbedderClient(tmp_path / "nothing") as client:
        with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
            await client.health()
        assert client.embed_id is None


async def test_it_is_polite_and_dies_with_its_parent(child: RunningChild, client: EmbedderClient) -> None:
    """Answering people comes first; and no child is left behind. (The last test to use the child.)"""
    assert os.getpriority(os.PRIO_PROCESS, child.process.pid) >= 10
    os.close(child.parent_end)
    assert await asyncio.to_thread(child.process.wait, 20) == 70
    with pytest.raises(EmbedderUnavailable):
        await client.health()


async def test_a_model_that_cannot_be_loaded_ends_it(tmp_path: Path) -> None:
    """A child that can never answer does not stay around as if it could."""
    command = ["-m", "memory.embedder_server", "--model-dir", str(tmp_path / "model"), "--socket", str(tmp_path / "s")]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=asyncio.subprocess.PIPE)
    _, errors = await asyncio.wait_for(process.communicate(), START_LIMIT_S)
    assert process.returncode not in (0, -signal.SIGKILL)
    assert b"not a sentence-transformers model" in errors.splitlines()[-1]


def test_a_fingerprint_follows_what_decides_the_vectors(tmp_path: Path) -> None:
    """Other weights or settings give another id; a readme does not."""
    first, second = make_tiny_embedder(tmp_path / "a"), make_tiny_embedder(tmp_path / "b")
    (second / "README.md").write_text("words")
    assert fingerprint(first, HIDDEN) == fingerprint(second, HIDDEN)
    assert fingerprint(first, HIDDEN) != fingerprint(make_tiny_embedder(tmp_path / "c", seed=1), HIDDEN)
    (second / "sentence_bert_config.json").write_text("{}")
    assert fingerprint(first, HIDDEN) != fingerprint(second, HIDDEN)


@given(st.lists(st.integers(0, 2 * BATCH_CHARACTERS).map("x".__mul__), max_size=30))
def test_batches_keep_every_text_and_stay_small(texts: list[str]) -> None:
    """One forward pass is short enough to wait for, and nothing is lost or reordered."""
    batches = split_into_batches(texts)
    assert [text for batch in batches for text in batch] == texts
    for batch in batches:
        assert 1 <= len(batch) <= BATCH
        assert len(batch) == 1 or sum(map(len, batch)) <= BATCH_CHARACTERS
