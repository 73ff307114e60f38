"""Write the tables of docs/api.md from what the server gives, takes and limits.

    python scripts/make_api_docs.py [--check]

With ``--check`` nothing is written; the exit status is 1 if something would be.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from readahead.config import ServerConfig
from readahead.server.problems import TYPES
from readahead.server.schemas.answershapes import Answered, AnswerTiming, AnswerUsage, Cited
from readahead.server.schemas.openapi import ERRORS
from readahead.server.schemas.settings import LIMITS, SETTINGS
from readahead.server.schemas.shapes import Status

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
CODES = {
    400: (
        "invalid",
        "json_invalid",
        "unsupported",
        "blank",
        "context_length_exceeded",
        "InputError",
        "VocabularyMismatch",
    ),
    401: ("invalid_api_key",),
    403: ("host_not_allowed", "cross_site"),
    404: ("model_not_found", "NotFound"),
    405: (),
    408: ("body_stalled",),
    409: ("session_busy", "EmbedderMismatch"),
    413: ("too_long",),
    415: ("unsupported_file_type", "unsupported_media_type"),
    429: (
        "queue_full",
        "jobs_full",
        "documents_full",
        "too_many_sessions",
        "tokens_exhausted",
        "requests_exhausted",
    ),
    503: ("not_ready", "draining", "fault"),
    500: ("fault", "StoreError", "BackendError", "ConfigError"),
    502: ("DownloadError",),
    507: ("DiskFull",),
}
OF_NO_OPERATION = {
    405: "The path does not take this method; the header `Allow` has those that it takes.",
    500: "The server failed; its log says where.",
    502: "A model that the server is to use is not there; its log says which.",
}
LISTED = tuple(name for name in ServerConfig.model_fields if name.startswith(("max_", "session_")))
BUDGETS = ("tokens_per_day", "requests_per_minute")


def fields_table(*models: type[BaseModel]) -> str:
    """Return the fields of what the server gives."""
    rows = [
        f"| `{name}` | {field.description or ''} |"
        for model in models
        for name, field in model.model_fields.items()
        if name != "object"
    ]
    return "\n".join(["| field | what it tells |", "|---|---|", *rows])


def settings_table() -> str:
    """Return what a request may set, by the methods that read it."""
    groups: dict[str, list[str]] = {}
    for name, methods in sorted(SETTINGS.items()):
        most = f" (at most {LIMITS[name]})" if name in LIMITS else ""
        group = ", ".join(f"`{method}`" for method in methods)
        groups.setdefault(group, []).append(f"`{name}`{most}")
    rows = [f"| {group} | {', '.join(names)} |" for group, names in groups.items()]
    return "\n".join(["| read by | settings |", "|---|---|", *rows])


def errors_table() -> str:
    """Return the statuses with their types and codes."""
    about = ERRORS | OF_NO_OPERATION
    rows = [
        f"| {status} | `{TYPES.get(status, 'server_error')}` | "
        f"{', '.join(f'`{code}`' for code in CODES[status]) or 'null'} | {about[status]} |"
        for status in sorted(CODES)
    ]
    return "\n".join(["| status | type | codes | when |", "|---|---|---|---|", *rows])


def limits_table() -> str:
    """Return the limits with their defaults."""
    rows = []
    for name in (*LISTED, *BUDGETS):
        field = ServerConfig.model_fields[name]
        default = "none" if field.default is None else f"{field.default:,}"
        rows.append(f"| `server.{name}` | {default} | {field.description} |")
    return "\n".join(["| setting | default | what of |", "|---|---|---|", *rows])


def tables() -> Mapping[str, str]:
    """Return all tables by the marks that they stand between."""
    return {
        "answered": fields_table(Answered),
        "cited": fields_table(Cited),
        "cost": fields_table(AnswerUsage, AnswerTiming),
        "settings": settings_table(),
        "status": fields_table(Status),
        "errors": errors_table(),
        "limits": limits_table(),
    }


def renewed(text: str) -> str:
    """Return the page with fresh tables."""
    for mark, table in tables().items():
        begin, end = f"<!-- {mark}: generated -->\n", f"<!-- {mark}: end -->"
        head, rest = text.split(begin)
        _, tail = rest.split(end)
        text = f"{head}{begin}{table}\n{end}{tail}"
    return text


def main() -> None:
    """Rewrite the page, or with ``--check`` fail if that would change it."""
    text = PAGE.read_text(encoding="utf-8")
    fresh = renewed(text)
    if "--check" in sys.argv:
        sys.exit("api.md is stale: run scripts/make_api_docs.py" if fresh != text else 0)
    PAGE.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
