"""Applications of a mesh in memory that answer, and how a test lets them live."""

from __future__ import annotations

from collections.abc import Callable

from mesh.client.role_messages import Call, RoleMessage
from mesh.client.roles import Roles
from tests.component.in_memory_mesh import Mesh

Open = Callable[..., Roles]


def serve(*applications: Roles) -> None:
    """Let applications answer what came, with their names."""
    for one in applications:
        one.step()
        while one._messages:
            message = one._messages.popleft()
            if message.wants_answer:
                message.answer(f"{one._node}: {message.payload.decode()}".encode())


def asked(application: Roles) -> RoleMessage:
    """Return the first message that comes to an application, which does not answer it."""
    for _ in range(200):
        application.step()
        if application._messages:
            return application._messages.popleft()
    raise AssertionError("nothing has come")


def finished(call: Call, *others: Roles) -> Call:
    for _ in range(2_000):
        serve(*others)
        call._roles.step()
        if call.is_done or call.refusal is not None:
            return call
    raise AssertionError(f"no last reply: {call}")


def live(mesh: Mesh, seconds: float, *applications: Roles) -> None:
    """Let time pass; these applications answer, and renew their leases."""
    until = mesh.now_ms() + int(seconds * 1000)
    while mesh.now_ms() < until:
        mesh.pause(0.1)
        serve(*applications)


def payloads(call: Call) -> list[str]:
    return sorted(one.payload.decode() for one in call.replies if one.payload is not None)
