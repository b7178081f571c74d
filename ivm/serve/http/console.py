"""`GET /console/state`: what the console shows of the database, for the user who asks."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ivm.serve.access import User
from ivm.serve.console.state import ConsoleState
from ivm.serve.http.endpoint import Handler, Served, json_response


def state(served: Served) -> Handler:
    """The handler of the state."""
    told = ConsoleState(served.database)

    async def handler(served: Served, request: Request, user: User) -> Response:
        async with served.runner.session(request, user) as session:
            found = await served.runner.run(
                request, session, lambda inner: told.told(inner, user.grant)
            )
        return json_response(found, Cache_Control="no-store")

    return handler
