"""The last mile: bytes into the version folder, load under the version's own name, prove, row, flip. And rollback.

The row is the commit: an interruption before it leaves the live version as it was, and the directory is swept or
reused. The flip is one pointer in the daemon (agent/publishing.py).
"""

import asyncio
from pathlib import Path

from memory.records import Version
from memory.states import VersionOrigin
from memory.store import Store
from updater.adapter import AdapterUnusable, check_adapter, publish_directory
from updater.deps import UpdateDeps
from updater.proof import SwapProof, prove_swap
from updater.training import Candidate, TrainingResult


class ParentReplaced(RuntimeError):
    """Another version went live since training began: the candidate was never compared with it."""


async def publish_candidate(
    deps: UpdateDeps,
    candidate: Candidate,
    result: TrainingResult,
    *,
    parent: Version,
    proof_prompts: tuple[tuple[int, ...], ...],
    update_id: str,
) -> tuple[Version, SwapProof]:
    """Raises ParentReplaced, AdapterUnusable, AdapterRejected or SwapUnproven; then nothing has changed."""
    async with deps.publishing:
        if deps.publisher.live != parent:
            raise ParentReplaced(f"{deps.publisher.live.name} went live while this was trained from {parent.name}")
        await asyncio.to_thread(
            check_adapter,
            candidate.directory,
            sha256=candidate.sha256,
            base_fingerprint=parent.base_fingerprint,
            parent=deps.data_dir / parent.adapter_path if parent.adapter_path else None,
        )
        number = await next_number(deps.store)
        relative = Path("versions") / f"v{number}-{candidate.sha256[:12]}"
        await asyncio.to_thread(publish_directory, candidate.directory, deps.data_dir / relative)
        version = Version(
            number=number,
            parent=parent.number,
            origin=VersionOrigin.UPDATE,
            update_id=update_id,
            adapter_path=str(relative),
            sha256=candidate.sha256,
            base_fingerprint=parent.base_fingerprint,
            created_at=deps.now(),
            note=f"{candidate.name}, moved {candidate.delta_norm:.3f}",
        )
        await deps.engine.load_adapter(version.name, str(deps.data_dir / relative))
        try:
            proof = await prove_swap(
                deps.engine,
                version.name,
                proof_prompts,
                trained=candidate.proof_logprobs,
                parent=result.parent_logprobs,
            )
        finally:
            # The publisher loads what it flips to and counts who uses it; what the proof loaded is not its own.
            await deps.engine.unload_adapter(version.name)
        await deps.store.updates.add_version(version)
        await deps.publisher.flip(version)
        return version, proof


async def roll_back(deps: UpdateDeps, *, to: int) -> Version:
    """Publish the bytes of version `to` under a new number. Raises LookupError or AdapterUnusable."""
    async with deps.publishing:
        old = await deps.store.updates.version(to)
        if old is None:
            raise LookupError(f"there is no policy@v{to}")
        if old.base_fingerprint != deps.publisher.live.base_fingerprint:
            raise AdapterUnusable(f"policy@v{to} belongs to another base model")
        if old.adapter_path is not None:
            await asyncio.to_thread(
                check_adapter,
                deps.data_dir / old.adapter_path,
                sha256=old.sha256 or "",
                base_fingerprint=old.base_fingerprint,
                parent=None,
            )
        version = Version(
            number=await next_number(deps.store),
            parent=deps.publisher.live.number,
            origin=VersionOrigin.ROLLBACK,
            copied_from=old.copied_from if old.copied_from is not None else old.number,
            adapter_path=old.adapter_path,
            sha256=old.sha256,
            base_fingerprint=old.base_fingerprint,
            created_at=deps.now(),
            note=f"rolled back from {deps.publisher.live.name} to the bytes of {old.name}",
        )
        await deps.store.updates.add_version(version)
        await deps.publisher.flip(version)
        return version


async def next_number(store: Store) -> int:
    """Numbers rise over all lineages and never restart."""
    return max((version.number for version in await store.updates.versions()), default=-1) + 1
