"""Ends of an update and of a rollback, on a real store; the engine is scripted, since nothing here is sampled."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.files import sha256_of
from memory.records import Reflection, Update, Version, new_id, utc_now
from memory.states import Remedy, UpdateStatus, VersionOrigin
from memory.store import Store, open_store
from memory.tokens import Tokenizer
from tests.fakes import FakeEngine
from tests.tiny import make_tiny_adapter, make_tiny_model
from updater.adapter import AdapterUnusable
from updater.deps import UpdateDeps
from updater.proof import SwapProof
from updater.publish import ParentReplaced, publish_candidate, roll_back
from updater.settings import UpdaterSettings
from updater.training import ADAPTER_FILE, Candidate, TrainingResult
from updater.update import run_update

BASE = "b" * 64


class Pointer:
    """The live version, and every version that it was flipped to."""

    def __init__(self, live: Version) -> None:
        self.live = live
        self.flips: list[int] = []

    async def flip(self, version: Version) -> None:
        self.live = version
        self.flips.append(version.number)


async def no_child(module: str, workdir: Path, **_: object) -> None:
    raise AssertionError(f"{module} was started in {workdir}")


def version(number: int, **fields: object) -> Version:
    values = {"parent": None, "origin": VersionOrigin.BASE, "base_fingerprint": BASE, "created_at": utc_now()}
    return Version(number=number, **(values | fields))  # type: ignore[arg-type]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "data") as opened:
        await opened.updates.add_version(version(0))
        yield opened


@pytest.fixture
def deps(store: Store, tmp_path: Path) -> UpdateDeps:
    model = make_tiny_model(tmp_path / "model")
    tokenizer = Tokenizer.load(model)
    return UpdateDeps(
        store=store,
        engine=FakeEngine(tokenizer),
        tokenizer=tokenizer,
        publisher=Pointer(version(0)),
        run_child=no_child,
        settings=UpdaterSettings(),
        data_dir=tmp_path / "data",
        model_dir=model,
        base_fingerprint=BASE,
        now=utc_now,
    )


def candidate_of(deps: UpdateDeps, tmp_path: Path) -> Candidate:
    directory = make_tiny_adapter(tmp_path / "scale-1.00", deps.model_dir, base_fingerprint=BASE)
    return Candidate(
        name=directory.name,
        directory=directory,
        scale=1.0,
        sha256=sha256_of(directory / ADAPTER_FILE),
        delta_norm=1.0,
        proof_logprobs=((-0.5, -0.5),),
    )


def result_of(candidate: Candidate, *, parent_logprobs: tuple[float, ...] = (-3.0, -3.0)) -> TrainingResult:
    return TrainingResult(
        candidates=(candidate,),
        parent_logprobs=(parent_logprobs,),
        base_fingerprint=BASE,
        passes=(),
        peak_rss_mb=1.0,
        seconds=1.0,
    )


async def test_without_a_reflection_an_update_is_skipped(deps: UpdateDeps) -> None:
    """It says that nothing was reflected on, starts no trainer, and its row has its one end."""
    end = await run_update(deps, trigger="manual", update_id="upd_1", report=lambda *_: None)
    assert (end.status, end.published_version) == (UpdateStatus.SKIPPED, None)
    assert end.reason == "no reflection has run yet"
    assert await deps.store.updates.get("upd_1") == end
    assert json.loads(end.scorecard_json) == {}


async def test_a_kind_that_does_not_ask_for_weights_is_left_alone(deps: UpdateDeps) -> None:
    """The reason repeats what reflection concluded."""
    reflection = Reflection(
        id=new_id("ref"),
        created_at=utc_now(),
        pass_id="pass_1",
        cluster_id="cl_1",
        label="stories",
        num_interactions=3,
        num_judged=3,
        num_principals=2,
        score=0.9,
        score_low=0.4,
        score_high=1.0,
        diagnosis="nothing failed",
        remedy=Remedy.NOTHING,
    )
    await deps.store.judgements.add_reflections([reflection])
    end = await run_update(deps, trigger="every", update_id="upd_1", report=lambda *_: None)
    assert end.status is UpdateStatus.SKIPPED
    assert "stories: nothing (nothing failed)" in str(end.reason)


async def test_publication_writes_the_row_and_flips_last(deps: UpdateDeps, tmp_path: Path) -> None:
    """The bytes lie in the version folder under their hash, the row names its parent, and the pointer moved once."""
    candidate = candidate_of(deps, tmp_path)
    published, proof = await _publish(deps, candidate)
    assert published.name == "policy@v1"
    assert sha256_of(deps.data_dir / str(published.adapter_path) / ADAPTER_FILE) == candidate.sha256
    assert deps.publisher.live == published == await deps.store.updates.version(1)
    assert proof.served_vs_trainer == 0.0


async def test_nobody_overrides_a_rollback(deps: UpdateDeps, tmp_path: Path) -> None:
    """A candidate that was compared with another version than the live one is not published."""
    candidate = candidate_of(deps, tmp_path)
    with pytest.raises(ParentReplaced, match="policy@v0"):
        await publish_candidate(
            deps, candidate, result_of(candidate), parent=version(7), proof_prompts=((1, 2, 3),), update_id="upd_1"
        )
    assert await deps.store.updates.version(1) is None


async def test_rollback_publishes_old_bytes_under_a_new_number(deps: UpdateDeps, tmp_path: Path) -> None:
    """v1 comes back as v3 with the same hash; a version that was never there cannot come back."""
    first, _ = await _publish(deps, candidate_of(deps, tmp_path))
    second = await roll_back(deps, to=0)
    third = await roll_back(deps, to=1)
    assert [second.number, third.number] == [2, 3]
    assert (third.sha256, third.copied_from, third.origin) == (first.sha256, 1, VersionOrigin.ROLLBACK)
    with pytest.raises(LookupError, match="policy@v9"):
        await roll_back(deps, to=9)


async def test_rollbacks_at_the_same_moment_come_one_after_another(deps: UpdateDeps, tmp_path: Path) -> None:
    """Each takes a number of its own. Found by benchmarks/bad_input.py, where one of two was a 500."""
    await _publish(deps, candidate_of(deps, tmp_path))
    versions = await asyncio.gather(*(roll_back(deps, to=to) for to in (0, 1, 0, 1)))
    assert [one.number for one in versions] == [2, 3, 4, 5]
    assert [one.parent for one in versions] == [1, 2, 3, 4]


async def test_damaged_bytes_do_not_come_back(deps: UpdateDeps, tmp_path: Path) -> None:
    """A rollback to a version whose file changed since is refused, and the live version stays."""
    first, _ = await _publish(deps, candidate_of(deps, tmp_path))
    path = deps.data_dir / str(first.adapter_path) / ADAPTER_FILE
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(AdapterUnusable, match="sha256"):
        await roll_back(deps, to=1)
    assert deps.publisher.live == first


async def _publish(deps: UpdateDeps, candidate: Candidate) -> tuple[Version, SwapProof]:
    await deps.store.updates.begin(Update(id="upd_1", trigger="manual", started_at=utc_now(), parent_version=0))
    return await publish_candidate(
        deps,
        candidate,
        result_of(candidate),
        parent=deps.publisher.live,
        proof_prompts=((1, 2, 3),),
        update_id="upd_1",
    )
