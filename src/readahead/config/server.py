"""Settings of the server."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from readahead.config.section import Section

Limit = Annotated[int, Field(gt=0, le=1_000_000)]
Name = Annotated[str, Field(pattern=r"^[^\s/:*]+$")]
Origin = Annotated[str, Field(pattern=r"^https?://[^\s/*]+$")]


class ServerConfig(Section):
    """Where the server listens, and how much it takes on; every limit is one of protection."""

    host: str = Field("127.0.0.1", description="any other address needs an API key")
    port: int = Field(8321, ge=0, le=65_535, description="0: any free one")
    allowed_hosts: tuple[Name, ...] = Field(
        (), description="names by which browsers may call it, beside localhost and addresses"
    )
    cors_origins: tuple[Origin, ...] = Field(
        (), description="of pages elsewhere that may call it; none by default"
    )
    tokens_per_day: int | None = Field(
        None, gt=0, description="of an API key that has no limit of its own; unset: any number"
    )
    requests_per_minute: int | None = Field(None, gt=0, description="of an API key, likewise")
    max_running: Limit = Field(8, description="answers written in turns, step by step")
    max_queued: Limit = Field(64, description="that wait; beyond: 429 with Retry-After")
    max_choices: int = Field(4, ge=1, le=64, description="of n")
    max_body_bytes: int = Field(4 * 2**20, gt=0, description="of a request that is no upload")
    body_idle_s: float = Field(30.0, gt=0, description="without a byte of a body, until it is cut")
    body_s: float = Field(1800.0, gt=0, description="that a body may take to come, uploads too")
    max_upload_bytes: int = Field(
        100 * 2**20, gt=0, description="of one upload, all files together"
    )
    max_upload_files: Limit = Field(20, description="of one upload")
    max_documents: Limit = Field(10_000, description="of one tenant")
    max_jobs: Limit = Field(100, description="uploads that wait to be indexed")
    max_pages: Limit = Field(2_000, description="of one uploaded document")
    max_sessions: Limit = Field(32, description="of one tenant; the one idle longest goes")
    session_idle_s: float = Field(1800.0, gt=0, description="until a session is forgotten")
    session_bytes: int | None = Field(
        None,
        ge=0,
        description="of what a tenant's idle sessions have read; unset: as much as the prefix "
        "tree may take (cache.budget_bytes)",
    )
    heartbeat_s: float = Field(
        15.0, gt=0, description="without a word in a stream, until a comment keeps it open"
    )
    drain_s: float = Field(30.0, ge=0, description="for running answers, at the end")
    log_text: bool = Field(False, description="questions and answers in logs and telemetry")
    telemetry: bool = Field(
        False, description="OpenTelemetry spans; the standard OTEL_… variables switch it on, too"
    )
