"""What people read fits their terminal, be it narrow."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from mesh.model.control import EndpointKind
from tests.component.cli.conftest import Chain, Run

READ = (
    *("status", "links", "interest", "interest --addresses", "endpoint list", "queue list"),
    *(
        "queue show jobs",
        "explain acme/orders/eu/customers/1 --from a",
        "route a c",
        "doctor --all",
    ),
    *("top", "dlq a", "plan {file}", "topology", "topology {file}", "walks {file} --from a"),
    *("zone list", "zone show Z", "subject list", "context show", "context list", "wait"),
    *("trace {id}", "drill", "role list"),
)


@pytest.mark.parametrize("width", [40, 100])
def test_nothing_is_wider_than_the_terminal(
    width: int, run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh, file = chain
    mesh.subscribe("c", "orders-of-all-customers-everywhere", "acme/orders/*/customers/>")
    mesh.subscribe("b", "jobs", "acme/>", kind=EndpointKind.QUEUE)
    client = mesh.client("a")
    sent = client.publish("acme/orders/eu/customers/1", b"x")
    client.flush()
    mesh.pause(2.0)
    run("context", "add", "here", "-f", file)
    run("context", "use", "here")
    monkeypatch.setattr("mesh.cli.render.WIDTH_WITHOUT_TERMINAL", width)
    for line in READ:
        said = run(*line.format(file=file, id=sent.id).split())
        assert said.code in (0, 10), (line, said.err)
        assert said.out.strip(), line
        wide = [one for one in said.out.splitlines() if cell_len(one) > width]
        assert wide == [], line


@pytest.mark.parametrize("width", [40, 100])
def test_no_heading_is_broken(
    width: int, run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a table is too narrow for its words, each of its cells has a line of its own."""
    mesh, file = chain
    mesh.subscribe("c", "orders", "acme/>")
    monkeypatch.setattr("mesh.cli.render.WIDTH_WITHOUT_TERMINAL", width)
    for line, headings in (
        ("status", ("NODE", "KAFKA", "ENDPOINTS", "KNOWN", "LINKS")),
        ("links", ("LINK", "FILTERS", "WANTED", "a->b", "multi-hop")),
        ("doctor --all", ("ABOUT", "CHECK", "warning", "do this", "rights")),
        ("endpoint list", ("NODE", "ENDPOINT", "FILTERS", "WAITING", "guaranteed")),
    ):
        said = run(*line.split(), "-f", file).out
        assert [one for one in headings if one not in said] == [], (line, said)
    said = run("status", "-f", file).out
    assert ("NODE: a\nKAFKA: left\n" in said) == (width == 40)
