"""GET /connect: instructions for connecting a client, for a user with a key and a browser.

A browser cannot send a bearer token by itself, so this page accepts HTTP basic authentication with
any name and the key as the password. No other path does, since a browser resends such credentials
automatically to all paths below the page.
"""

from __future__ import annotations

import base64
import dataclasses
import re

from aiohttp import web

from olp.connect import all_clients
from olp.connect.base import ANY_KEY, PLACEHOLDER, Target
from olp.connect.page import HEADERS, page
from olp.errors import RequestError
from olp.model import Capability, ModelEntry
from olp.runtime.access.caller import Caller
from olp.runtime.serving.service import Service
from olp.server.auth import Gatekeeper

_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
_ASK = ("WWW-Authenticate", 'Basic realm="OLP: any name, your key as the password"')


class ConnectPage:
    """The page, over one service."""

    def __init__(self, service: Service, gatekeeper: Gatekeeper) -> None:
        self._service = service
        self._gatekeeper = gatekeeper

    async def get(self, request: web.Request) -> web.Response:
        """The page for this caller. Raises RequestError if it is not authorized."""
        caller = await self._caller(request)
        entries = self._service.models(caller)
        key = ANY_KEY if caller.key is None else PLACEHOLDER
        target = _with_model(Target(_base(request), key), next(iter(entries), None))
        name = "" if caller.key is None else caller.name
        models = [entry.id for entry in entries]
        text = page(target, models, all_clients().values(), name=name)
        return web.Response(text=text, content_type="text/html", headers=HEADERS)

    async def _caller(self, request: web.Request) -> Caller:
        try:
            return await self._gatekeeper.check(_with_bearer(request))
        except RequestError as error:
            if error.status == 401:
                others = (h for h in error.headers if h[0].lower() != "www-authenticate")
                error.headers = (*others, _ASK)
            raise


def _with_model(target: Target, entry: ModelEntry | None) -> Target:
    """`target` with the data of the model for which the page is rendered."""
    if entry is None:
        return target
    context, sees = entry.context or target.context, Capability.IMAGES in entry.can
    return dataclasses.replace(target, model=entry.id, context=context, sees=sees)


def _base(request: web.Request) -> str:
    """The base URL that the caller used, which is known to be reachable from there."""
    if _HOST.fullmatch(request.host) is None:
        raise RequestError("the Host of this request is no address", code="bad_request")
    return f"{request.scheme}://{request.host}/v1"


def _with_bearer(request: web.Request) -> web.Request:
    """The request with the basic authentication password as bearer token."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return request
    try:
        token = base64.b64decode(secret, validate=True).decode("utf-8").partition(":")[2]
    except ValueError:
        token = ""
    headers = request.headers.copy()
    headers["Authorization"] = f"Bearer {token}"
    return request.clone(headers=headers)
