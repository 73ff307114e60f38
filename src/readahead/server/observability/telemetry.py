"""Whether OpenTelemetry is told of requests, and how: as its own environment variables say.

Nothing is sent unless ``OTEL_EXPORTER_OTLP_ENDPOINT`` or ``OTEL_TRACES_EXPORTER`` say so, or
``server.telemetry`` is true. Spans carry numbers and flags; text only with ``server.log_text``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from readahead.config import ServerConfig
from readahead.errors import ConfigError, missing_extra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from readahead.server.observability.spans import Spans

EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def is_wanted(config: ServerConfig, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether spans are to be sent; OpenTelemetry's own switches can forbid it."""
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporter = _exporter_name(environment)
    if is_off or exporter == "none":
        return False
    return config.telemetry or bool(exporter) or any(map(environment.get, _ENDPOINTS))


def open_telemetry(
    config: ServerConfig, environment: Mapping[str, str] = os.environ
) -> Spans | None:
    """Return what sends spans as settings and environment say, None if they do not.

    Raises:
        ConfigError: The extra ``otel`` is not installed, or the exporter is not known.
    """
    if not is_wanted(config, environment):
        return None
    name = _exporter_name(environment) or "otlp"
    if name not in ("otlp", "console"):
        raise ConfigError(
            f"{EXPORTER} is {name!r}, which is not known.", remedy="Use otlp, console or none."
        )
    try:
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from readahead.server.observability.spans import Spans
    except ImportError:
        raise missing_extra("opentelemetry-sdk", "otel") from None
    return Spans(BatchSpanProcessor(_exporter(name)), with_text=config.log_text)


def _exporter_name(environment: Mapping[str, str]) -> str:
    return environment.get(EXPORTER, "").strip().lower()


def _exporter(name: str) -> SpanExporter:
    """Return what sends spans; where to, it reads from the environment by itself."""
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        # Beside the log, and like it a line each: what stdout gets is the command's answer.
        return ConsoleSpanExporter(
            out=sys.stderr, formatter=lambda span: f"{span.to_json(indent=None)}\n"
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise missing_extra("opentelemetry-exporter-otlp-proto-http", "otel") from None
    return OTLPSpanExporter()
