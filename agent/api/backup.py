"""POST /admin/backup: a backup written beside the running daemon. Over the admin socket only: it names a path here."""

from pathlib import Path

from aiohttp import web
from pydantic import Field

from agent.api.auth import is_unix
from agent.api.chat_schema import StrictModel
from agent.api.context import CONTEXT
from agent.api.errors import bad_request, forbidden
from agent.api.json_body import read_body
from agent.backups import back_up


class BackupBody(StrictModel):
    to: str = Field(min_length=1, max_length=4096)
    """An absolute path; absent or an empty directory."""


async def start_backup(request: web.Request) -> web.Response:
    """Answers when the backup is whole and on the disk."""
    if not is_unix(request):
        raise forbidden("A backup can only be asked for over the admin socket: journeyman backup.")
    context, body = request.app[CONTEXT], await read_body(request, BackupBody)
    target = Path(body.to)
    if not target.is_absolute():
        raise bad_request("to: must be an absolute path", param="to")
    manifest = await back_up(context.store, context.data_dir, target, now=context.now())
    return web.json_response(manifest.model_dump(mode="json"), status=201)
