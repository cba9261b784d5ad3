"""The last mile: bytes into the version folder, load under the version's own name, prove, row, flip. And rollback.

The row is the commit: an interruption before it leaves the live version as it was, and the directory is swept or
reused. The flip is one pointer in the daemon (agent/publishing.py).
"""

from datetime import datetime
from pathlib import Path
from typing import Protocol

from memory.completions import InferenceClient
from memory.records import Version, VersionOrigin
from memory.store import Store
from updater.adapter import AdapterUnusable, check_adapter, publish_directory
from updater.proof import SwapProof, prove_swap
from updater.training import Candidate, TrainingResult


class Publisher(Protocol):
    """Who holds the pointer to the live version."""

    live: Version

    async def flip(self, version: Version) -> None:
        """Make `version`, which is resident or loadable, the one that new requests get; the old one drains."""
        ...


async def publish_candidate(
    *,
    store: Store,
    engine: InferenceClient,
    publisher: Publisher,
    data_dir: Path,
    candidate: Candidate,
    result: TrainingResult,
    proof_prompts: tuple[tuple[int, ...], ...],
    update_id: str,
    now: datetime,
) -> tuple[Version, SwapProof]:
    """Raises AdapterUnusable, AdapterRejected or SwapUnproven; then nothing has changed."""
    parent = publisher.live
    check_adapter(
        candidate.directory,
        sha256=candidate.sha256,
        base_fingerprint=parent.base_fingerprint,
        parent=data_dir / parent.adapter_path if parent.adapter_path else None,
    )
    number = await next_number(store)
    relative = Path("versions") / f"v{number}-{candidate.sha256[:12]}"
    publish_directory(candidate.directory, data_dir / relative)
    version = Version(
        number=number,
        parent=parent.number,
        origin=VersionOrigin.UPDATE,
        update_id=update_id,
        adapter_path=str(relative),
        sha256=candidate.sha256,
        base_fingerprint=parent.base_fingerprint,
        created_at=now,
        note=f"{candidate.name}, moved {candidate.delta_norm:.3f}",
    )
    await engine.load_adapter(version.name, str(data_dir / relative))
    try:
        proof = await prove_swap(
            engine,
            version.name,
            proof_prompts,
            trained=candidate.proof_logprobs,
            parent=result.parent_logprobs,
        )
    finally:
        # The publisher loads what it flips to, and counts who uses it; what was loaded for the proof is not its own.
        await engine.unload_adapter(version.name)
    await store.updates.add_version(version)
    await publisher.flip(version)
    return version, proof


async def roll_back(*, store: Store, publisher: Publisher, data_dir: Path, to: int, now: datetime) -> Version:
    """Publish the bytes of version `to` under a new number. Raises LookupError or AdapterUnusable."""
    old = await store.updates.version(to)
    if old is None:
        raise LookupError(f"there is no policy@v{to}")
    if old.base_fingerprint != publisher.live.base_fingerprint:
        raise AdapterUnusable(f"policy@v{to} belongs to another base model")
    if old.adapter_path is not None:
        check_adapter(
            data_dir / old.adapter_path, sha256=old.sha256 or "", base_fingerprint=old.base_fingerprint, parent=None
        )
    version = Version(
        number=await next_number(store),
        parent=publisher.live.number,
        origin=VersionOrigin.ROLLBACK,
        copied_from=old.copied_from if old.copied_from is not None else old.number,
        adapter_path=old.adapter_path,
        sha256=old.sha256,
        base_fingerprint=old.base_fingerprint,
        created_at=now,
        note=f"rolled back from {publisher.live.name} to the bytes of {old.name}",
    )
    await store.updates.add_version(version)
    await publisher.flip(version)
    return version


async def next_number(store: Store) -> int:
    """Numbers rise over all lineages and never restart."""
    return max((version.number for version in await store.updates.versions()), default=-1) + 1
