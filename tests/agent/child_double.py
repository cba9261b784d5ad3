"""A child for the supervisor's tests: `python -m tests.agent.child_double WHAT`. Serves, fails, reports or hangs."""

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path

from aiohttp import web

from memory.child import die_with_parent


async def _serve(socket: str) -> None:
    async def health(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/health", health)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, socket).start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket")
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("workdir", nargs="?")
    options = parser.parse_args()
    die_with_parent()
    if options.fail:
        sys.exit("first line\nthere is no model here")
    if options.socket:
        asyncio.run(_serve(options.socket))
    order = (Path(options.workdir) / "order").read_text()
    if order == "report":
        sys.stdout.write('{"stage": "one"}\n')
        sys.stdout.write(f"{os.environ['OMP_NUM_THREADS']} {os.getpriority(os.PRIO_PROCESS, 0)}\n")
    elif order == "fail":
        sys.exit("out of luck")
    elif order == "die":
        os.abort()
    else:
        sys.stdout.write("sleeping\n")
        sys.stdout.flush()
        time.sleep(600)


if __name__ == "__main__":
    main()
