"""The daemon of the demonstration as a process: waited for, drained at the end, its log shown when it fails."""

import sys
from pathlib import Path

import psutil
import pytest

from agent.demo.daemon_process import DaemonFailed, running_daemon

READY = (
    "import asyncio, json, os, sys\n"
    "from aiohttp import web\n"
    "from tests.demo.daemon_double import DaemonDouble\n"
    "async def main():\n"
    "    runner = web.AppRunner(DaemonDouble().app()); await runner.setup()\n"
    "    site = web.TCPSite(runner, '127.0.0.1', 0); await site.start()\n"
    "    port = runner.addresses[0][1]\n"
    "    path = os.path.join(sys.argv[sys.argv.index('--data-dir') + 1], 'daemon.json')\n"
    "    open(path, 'w').write(json.dumps({'pid': os.getpid(), 'url': f'http://127.0.0.1:{port}'}))\n"
    "    await asyncio.Event().wait()\n"
    "asyncio.run(main())\n"
)


async def test_daemon_is_ready_in_the_block_and_gone_after(tmp_path: Path) -> None:
    """The block starts when /readyz says so and leaves no process behind."""
    async with running_daemon(tmp_path / "data", command=(sys.executable, "-c", READY)) as daemon:
        assert daemon.url.startswith("http://127.0.0.1:")
        assert psutil.pid_exists(daemon.pid)
    assert not psutil.pid_exists(daemon.pid)


async def test_daemon_that_ends_shows_its_log(tmp_path: Path) -> None:
    """A daemon that cannot start is an error with the end of what it wrote."""
    with pytest.raises(DaemonFailed, match="no such model"):
        async with running_daemon(tmp_path, command=(sys.executable, "-c", "raise SystemExit('no such model')")):
            pass
