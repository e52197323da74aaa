"""OpenTelemetry: a span per committed batch and node, linked to the messages' own traces."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mesh.lane.traces import PARENTS_MAX
from mesh.model.state import Ledger, SourceRange
from mesh.transport.headers import headers_of
from mesh.worker.http.spans import BatchSpans, exported_spans
from tests.component.worker.conftest import SmallMesh, subject

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def parent(flags: str = "01", span: str = SPAN) -> tuple[str, bytes]:
    return ("traceparent", f"00-{TRACE}-{span}-{flags}".encode())


class Collector(BaseHTTPRequestHandler):
    """Takes what is sent, as a collector does."""

    bodies: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.bodies.append((self.path, self.rfile.read(length)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class TracedMesh(SmallMesh):
    """The small mesh, whose nodes tell of their batches."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.environment = environment or {}
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        super().__init__()

    def run(self, ms: int = 4000) -> None:
        for node, worker in self.world.workers.items():
            if worker.traces is None:
                tracer = self._provider.get_tracer("test")
                worker.traces = BatchSpans(node, tracer, self.environment)
        super().run(ms)

    def spans(self) -> Mapping[str, ReadableSpan]:
        """Return the one span of each node since somebody asked last."""
        found = self.exporter.get_finished_spans()
        self.exporter.clear()
        nodes = [str((span.attributes or {})["mesh.node"]) for span in found]
        assert len(set(nodes)) == len(nodes), nodes
        return dict(zip(nodes, found, strict=True))


@pytest.fixture
def traced() -> TracedMesh:
    return TracedMesh()


def test_each_hop_of_a_sampled_message_links_to_its_trace(traced: TracedMesh) -> None:
    """Published, in transit, delivered; and the message arrives with the trace that it had."""
    assert not traced.spans()  # nothing was published
    traced.publish(b"x", [subject("acme/x"), parent()])
    traced.run()
    spans = traced.spans()
    assert set(spans) == {"a", "b", "c"}
    for node, span in spans.items():
        assert span.name == f"process {node}"
        [link] = span.links
        assert link.context.trace_id == int(TRACE, 16)
        assert link.context.span_id == int(SPAN, 16)
        assert link.context.is_remote
        assert (span.end_time or 0) >= (span.start_time or 0)
    said = {node: span.attributes or {} for node, span in spans.items()}
    assert [said[n]["messaging.batch.message_count"] for n in "abc"] == [1, 1, 1]
    assert [said[n]["mesh.forwarded_to"] for n in "abc"] == [("b",), ("c",), ()]
    assert [said[n]["mesh.delivered"] for n in "abc"] == [0, 0, 1]
    [delivered] = traced.delivered()
    assert parent() in headers_of(delivered)


def test_what_is_not_sampled_or_no_trace_is_not_linked(traced: TracedMesh) -> None:
    """Nor is it touched: headers of clients are theirs."""
    odd = [parent("00"), ("traceparent", b"junk"), ("traceparent", None), parent(span="0" * 16)]
    traced.publish(b"x", [subject("acme/x"), *odd])
    traced.run()
    assert [span.links for span in traced.spans().values()] == [()] * 3
    [delivered] = traced.delivered()
    assert [one for one in headers_of(delivered) if one[0] == "traceparent"] == odd


def test_a_batch_links_to_so_many_traces_at_most(traced: TracedMesh) -> None:
    for number in range(1, PARENTS_MAX + 9):
        traced.publish(b"x", [subject("acme/x"), parent(span=f"{number:016x}")])
    traced.run()
    for span in traced.exporter.get_finished_spans():
        assert 0 < len(span.links) <= PARENTS_MAX


def test_the_names_of_attributes_are_those_that_were_asked_for() -> None:
    """OpenTelemetry's switch for names that were renamed."""
    traced = TracedMesh({"OTEL_SEMCONV_STABILITY_OPT_IN": "http,messaging"})
    traced.publish(b"x", [subject("acme/x")])
    traced.run()
    for span in traced.spans().values():
        assert (span.attributes or {})["messaging.system.name"] == "kafka"
        assert "messaging.system" not in (span.attributes or {})


def test_spans_come_to_the_collector_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By OTLP over HTTP; what is left is sent when the worker ends."""
    Collector.bodies.clear()
    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        where = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", where)
        read = SourceRange("mesh.a.in.g", b"", 0, 0, 5, 5)
        account = Ledger(node="a", lane=0, lane_epoch=1, sources=[read])
        with exported_spans("a", os.environ) as spans:
            spans.committed(0, 7, account, [parent()[1]])
    finally:
        server.shutdown()
        server.server_close()
    [(path, body)] = Collector.bodies
    assert path == "/v1/traces"
    sent = ExportTraceServiceRequest.FromString(body).resource_spans[0]
    assert "trellis-mesh" in str(sent.resource)
    [span] = sent.scope_spans[0].spans
    assert (span.name, span.links[0].trace_id.hex()) == ("process a", TRACE)
    assert span.end_time_unix_nano - span.start_time_unix_nano == 7_000_000
