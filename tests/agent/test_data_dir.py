"""One daemon per data directory, and what lies where in it."""

import json
import os
from pathlib import Path

import pytest

from agent.data_dir import DataDirInUseError, hold_data_dir


def test_second_daemon_is_refused_by_pid(tmp_path: Path) -> None:
    """Whoever comes second is told who holds the directory; afterwards it is free."""
    place = tmp_path / "data"
    with hold_data_dir(place), pytest.raises(DataDirInUseError, match=str(os.getpid())), hold_data_dir(place):
        pytest.fail("two daemons hold one directory")
    with hold_data_dir(tmp_path / "data"):
        pass


def test_directory_is_the_owners_alone(tmp_path: Path) -> None:
    """Nobody else may look into it, nor into the folder of the sockets."""
    with hold_data_dir(tmp_path / "data") as home:
        assert home.path.stat().st_mode & 0o777 == 0o700
        assert home.sockets.stat().st_mode & 0o777 == 0o700


def test_daemon_json_is_there_only_while_a_daemon_is(tmp_path: Path) -> None:
    """It names pid, address and admin socket once announced, and goes with the daemon; a stale one is cleared."""
    with hold_data_dir(tmp_path / "data") as home:
        home.announce("http://127.0.0.1:1")
        told = json.loads(home.daemon_json.read_text())
        assert told == {
            "pid": os.getpid(),
            "url": "http://127.0.0.1:1",
            "admin_socket": str(home.sockets / "admin.sock"),
        }
    assert not home.daemon_json.exists()
    home.daemon_json.write_text("{}")
    with hold_data_dir(tmp_path / "data"):
        assert not home.daemon_json.exists()


def test_sockets_of_a_long_path_lie_elsewhere(tmp_path: Path) -> None:
    """A path that a socket address cannot hold gets a short folder, the same one each time."""
    deep = tmp_path / ("deep" * 30)
    with hold_data_dir(deep) as home:
        assert len(os.fsencode(home.sockets / "embedder.sock")) <= 107
        first = home.sockets
    with hold_data_dir(deep) as home:
        assert home.sockets == first
    first.rmdir()
