"""The fake embedder keeps the promises of the real one."""

import numpy as np
import pytest

from memory.embedder import Embedder, EmbedderUnavailable
from tests.fakes_memory import FakeEmbedder


async def test_it_is_an_embedder() -> None:
    """Unit vectors, the same for the same text, nearer for texts that share words."""
    fake: Embedder = FakeEmbedder()
    a, b, c = await fake.embed(["my dog Rex", "dogs called rex", "a slow glacier"], timeout_s=1)
    assert fake.embed_id == await fake.health()
    np.testing.assert_allclose([np.linalg.norm(v) for v in (a, b, c)], 1, rtol=1e-5)
    assert a @ b > 0.6 > abs(a @ c)


async def test_it_can_be_away_or_slow() -> None:
    """Both are the one error that callers know."""
    fake = FakeEmbedder()
    fake.delay_s = 10
    with pytest.raises(EmbedderUnavailable, match="slow"):
        await fake.embed(["a"], timeout_s=0.01)
    fake.is_away = True
    with pytest.raises(EmbedderUnavailable, match="away"):
        await fake.health()
