"""`mesh dashboard` and `mesh api`: a server for people and scripts that ask a mesh."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated

import typer

from mesh.cli.render import standard_output
from mesh.cli.session import in_force_in, quiet_client_library
from mesh.cli.target import HERE, Target
from mesh.errors import missing_package

LISTEN_DEFAULT = "127.0.0.1:8080"

ListenOption = Annotated[
    str,
    typer.Option(
        help="HOST:PORT to listen on; beyond loopback MESH_TOKEN or --user-header is needed."
    ),
]
HostOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host", help="Another host name under which clients reach it. Repeatable."
    ),
]
RootOption = Annotated[
    str, typer.Option("--root-path", help="Path under which a proxy serves it, as in /trellis.")
]
HeaderOption = Annotated[
    str,
    typer.Option("--user-header", help="Header in which a proxy names the user who is logged in."),
]
SecureOption = Annotated[
    bool,
    typer.Option(
        "--secure-cookie",
        help="Browsers send the login over HTTPS only: for use behind a proxy that speaks it.",
    ),
]
EmbedOption = Annotated[
    list[str] | None,
    typer.Option("--embed", help="Origin of a portal that may frame the page. Repeatable."),
]


def dashboard(
    listen: ListenOption = LISTEN_DEFAULT,
    allowed_host: HostOption = None,
    root_path: RootOption = "",
    user_header: HeaderOption = "",
    secure_cookie: SecureOption = False,
    embed: EmbedOption = None,
    target: Target = HERE,
) -> None:
    """Serve the page of a mesh, and the API under it; print the address once it answers.

    Topics are read, nothing is written, no consumer group is joined. With MESH_TOKEN in the
    environment, clients must send that token.
    """
    _serve(
        target,
        listen,
        allowed_host,
        root_path,
        user_header,
        secure_cookie=secure_cookie,
        page=embed or (),
    )


def api(
    listen: ListenOption = LISTEN_DEFAULT,
    allowed_host: HostOption = None,
    root_path: RootOption = "",
    user_header: HeaderOption = "",
    secure_cookie: SecureOption = False,
    target: Target = HERE,
) -> None:
    """Serve the API of a mesh, without its page; /openapi.json describes it."""
    _serve(target, listen, allowed_host, root_path, user_header, secure_cookie=secure_cookie)


def _serve(
    target: Target,
    listen: str,
    allowed_host: Sequence[str] | None,
    root_path: str,
    user_header: str,
    *,
    secure_cookie: bool,
    page: Sequence[str] | None = None,
) -> None:
    """Serve until a signal comes; `page` names who may frame the page, None: no page."""
    for package in ("fastapi", "uvicorn", "sse_starlette"):
        if find_spec(package) is None:
            raise missing_package(f"{package} is not installed", "api")
    from mesh.api.serve import ServeSettings, serve
    from mesh.transport.probes import parse_address
    from mesh.worker.process.logs import set_up_logs

    host, port = parse_address(listen)
    settings = ServeSettings(
        host=host,
        port=port,
        token=os.environ.get("MESH_TOKEN", "").strip(),  # files end with a line break
        allowed_hosts=tuple(allowed_host or ()),
        root_path=root_path,
        user_header=user_header,
        secure_cookie=secure_cookie,
        embedders=tuple(page or ()),
        has_page=page is not None,
    )
    settings.access()  # refused before anything is read
    topology = in_force_in(target).topology
    quiet_client_library()
    set_up_logs()
    serve(topology, settings, _tell_address)


def _tell_address(address: str) -> None:
    with standard_output():
        typer.echo(address)
