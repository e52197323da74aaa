"""Spans of committed batches for OpenTelemetry: one per batch and hop, never one per message.

A span is linked to the traces of the messages in it, as far as those are sampled. Attribute
names are defined only here: OpenTelemetry's own for messaging are still being renamed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags, Tracer

from mesh.model.state import Ledger

STABLE = "OTEL_SEMCONV_STABILITY_OPT_IN"
TIMEOUT, TIMEOUT_S = "OTEL_EXPORTER_OTLP_TIMEOUT", 2.0
"""How long a collector may take to answer unless the environment says: shutdown waits for it."""


class BatchSpans:
    """Makes the spans of one worker.

    Args:
        node: The node it serves.
        tracer: Where they go.
        environment: `OTEL_SEMCONV_STABILITY_OPT_IN` chooses between names of attributes.
        wall_ns: The wall clock, which spans use.
    """

    def __init__(
        self,
        node: str,
        tracer: Tracer,
        environment: Mapping[str, str],
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._node = node
        self._tracer = tracer
        self._wall_ns = wall_ns
        is_new = "messaging" in environment.get(STABLE, "").split(",")
        self._system = "messaging.system.name" if is_new else "messaging.system"

    def committed(
        self, lane: int, open_ms: int, account: Ledger, parents: Collection[bytes]
    ) -> None:
        """Export the span of a batch that has messages."""
        read = sum(source.messages for source in account.sources)
        if read == 0:
            return
        now_ns = self._wall_ns()
        attributes = {
            self._system: "kafka",
            "messaging.operation.type": "process",
            "messaging.batch.message_count": read,
            "mesh.node": self._node,
            "mesh.lane": lane,
            "mesh.sources": sorted({source.topic for source in account.sources}),
            "mesh.forwarded_to": sorted({sent.neighbour for sent in account.sent}),
            "mesh.forwarded": sum(sent.messages for sent in account.sent),
            "mesh.delivered": sum(max(0, one.messages) for one in account.delivered),
            "mesh.dropped": sum(one.messages for one in account.dropped),
        }
        span = self._tracer.start_span(
            f"process {self._node}",
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[_link(parent) for parent in parents],
            start_time=now_ns - open_ms * 1_000_000,
        )
        span.end(now_ns)


def _link(parent: bytes) -> Link:
    """Return the link to what a well-formed `traceparent` names."""
    _, trace, span, flags = parent.decode().split("-")
    context = SpanContext(
        int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
    return Link(context)


@contextmanager
def exported_spans(node: str, environment: Mapping[str, str]) -> Iterator[BatchSpans]:
    """Send spans to the collector that OpenTelemetry's own variables name, until the block ends."""
    named = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": "trellis-mesh"}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    timeout_s = None if environment.get(TIMEOUT) else TIMEOUT_S
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=timeout_s)))
    try:
        yield BatchSpans(node, provider.get_tracer("trellis-mesh"), environment)
    finally:
        provider.shutdown()
