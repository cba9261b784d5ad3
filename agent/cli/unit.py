"""`journeyman unit`: a systemd unit for this installation, on standard output."""

import shutil
import sys
from pathlib import Path

from agent.cli.options import DataDirOption, chosen_data_dir

_UNIT = """\
[Unit]
Description=Journeyman, an agent that learns on the job
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
ExecStart={command} serve --data-dir {data_dir}
ExecReload=kill -HUP $MAINPID
# A first start fetches and converts the models.
TimeoutStartSec=30min
# Longer than server.drain_timeout_s, so that open chats may end.
TimeoutStopSec=90
# The event loop says that it turns twice in this time.
WatchdogSec=60
Restart=on-failure
RestartSec=5
# Children end with the daemon by themselves; what is left is killed.
KillMode=mixed
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
ReadWritePaths={data_dir} {cache_dir}

[Install]
WantedBy=default.target
"""


def unit(*, data_dir: DataDirOption = None) -> None:
    """Print a systemd unit: journeyman unit > ~/.config/systemd/user/journeyman.service."""
    command = shutil.which("journeyman") or str(Path(sys.argv[0]).absolute())
    cache_dir = Path.home() / ".cache" / "journeyman"
    print(_UNIT.format(command=command, data_dir=chosen_data_dir(data_dir), cache_dir=cache_dir), end="")
