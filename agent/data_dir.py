"""The data directory: who owns it, and where things lie in it. Everything the daemon keeps is below this one folder.

state.sqlite is the store's; models/, versions/, updates/ and index/ are written by temp name, fsync and rename; run/
has the sockets; daemon.json says where a running daemon listens and is there only while one does.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MAX_SOCKET_PATH_BYTES = 107
"""What a Unix socket address holds on Linux, without its closing zero."""
_FOLDERS = ("index", "models", "versions", "updates", "passes", "logs")


class DataDirInUseError(RuntimeError):
    """Another daemon has this data directory; the message names its pid."""


@dataclass(frozen=True, slots=True)
class DataDir:
    """A data directory this process holds the lock of."""

    path: Path
    sockets: Path
    """Where the sockets lie: run/ below `path`, or a short folder elsewhere when that path is too long."""

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def index(self) -> Path:
        return self.path / "index"

    @property
    def passes(self) -> Path:
        return self.path / "passes"

    @property
    def daemon_json(self) -> Path:
        return self.path / "daemon.json"

    def announce(self, url: str) -> None:
        """Write daemon.json: called once the address is bound."""
        admin_socket = str(self.sockets / "admin.sock")
        written = self.path / ".daemon.json.new"
        written.write_text(json.dumps({"pid": os.getpid(), "url": url, "admin_socket": admin_socket}) + "\n")
        written.replace(self.daemon_json)


@contextmanager
def hold_data_dir(path: Path) -> Iterator[DataDir]:
    """Create the directory where it is missing, lock it, tidy what a killed daemon left. Raises DataDirInUseError."""
    path = path.absolute()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    with _locked(path / "lock"):
        for folder in _FOLDERS:
            (path / folder).mkdir(mode=0o700, exist_ok=True)
        sockets = _socket_folder(path)
        home = DataDir(path=path, sockets=sockets)
        home.daemon_json.unlink(missing_ok=True)
        try:
            yield home
        finally:
            home.daemon_json.unlink(missing_ok=True)
            for socket in sockets.glob("*.sock"):
                socket.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock. flock ends with its process, so a stale lock cannot be."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            raise DataDirInUseError(f"{path.parent} is in use by a daemon with pid {owner}") from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def _socket_folder(path: Path) -> Path:
    """run/, or a folder of ours in the system's temporary directory where run/ makes addresses that are too long."""
    folder = path / "run"
    if len(os.fsencode(folder / "embedder.sock")) > _MAX_SOCKET_PATH_BYTES:
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        folder = Path(tempfile.gettempdir()) / f"journeyman-{os.getuid()}-{digest}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} belongs to someone else")
    folder.chmod(0o700)
    return folder
