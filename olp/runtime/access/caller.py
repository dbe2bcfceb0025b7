"""The authenticated caller of a request, and its permissions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from olp.core.keys.key import Key
from olp.errors import RequestError
from olp.model import Field, Message, Request, Role


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller. An owner sees everything, a member only their own. Shared and cached answers are
    scoped by `id`; `key` is None if none is needed."""

    id: str
    name: str
    owner: bool
    key: Key | None = None

    def may_ask(self, model: str) -> bool:
        """Whether `model` (a chain or a model) is permitted."""
        return self.key is None or self.key.may_ask(model)

    def check_model(self, model: str) -> None:
        """Raises RequestError 403 if `model` is not permitted."""
        if self.key is not None and not self.key.may_ask(model):
            raise RequestError(
                f"This key may ask for {', '.join(self.key.chains)}, and for nothing else.",
                status=403,
                code="chain_not_allowed",
                param=Field.MODEL,
                headers=(("x-should-retry", "false"),),
            )

    def with_prompt(self, request: Request) -> Request:
        """`request` with the key's system prompt as the first message, and so as part of the
        request's identity."""
        if self.key is None or not self.key.system_prompt:
            return request
        prompt = Message(Role.SYSTEM, self.key.system_prompt)
        return dataclasses.replace(request, messages=(prompt, *request.messages))


OWNER = Caller("owner", "owner", owner=True)
"""The caller while no key exists."""

LOCAL = Caller("local", "owner", owner=True)
"""The owner's own commands on this machine."""
