"""What a request may set, and which methods read it; the rest is the server's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError

from readahead.config import Config
from readahead.errors import ConfigError
from readahead.rapid import drafts_by_model
from readahead.server.problems import Problem, of_field

Method = Literal["prefetch", "plain", "drafts", "rapid"]
_ALL: tuple[Method, ...] = get_args(Method)
_SHOWING: tuple[Method, ...] = ("prefetch", "plain")  # the best passages to the target
_WRITING: tuple[Method, ...] = (*_SHOWING, "rapid")  # token by token
_DRAFTING: tuple[Method, ...] = ("drafts",)
_READING: tuple[Method, ...] = ("rapid",)  # a whole document
# Not what the plain answer reads that steps in where drafting fails: it is nobody's choice.
SETTINGS: Mapping[str, tuple[Method, ...]] = MappingProxyType(
    {
        "retrieval.k": _SHOWING,
        "inject.threshold": _SHOWING,
        "inject.placement": _SHOWING,
        "inject.max_injections": _SHOWING,
        "drafts.preset": _DRAFTING,
        "drafts.strategy": _DRAFTING,
        "drafts.num_passages": _DRAFTING,
        "drafts.num_drafts": _DRAFTING,
        "drafts.passages_per_draft": _DRAFTING,
        "drafts.adaptive": _DRAFTING,
        "drafts.with_rationale": _DRAFTING,
        "drafts.threshold": _DRAFTING,
        "drafts.also": _DRAFTING,
        "drafts.max_refinements": _DRAFTING,
        "drafts.max_depth": _DRAFTING,
        "tokens.drafter": _READING,
        "tokens.mode": _READING,
        "tokens.eta": _READING,
        "tokens.dynamic": _READING,
        "tokens.weight": _READING,
        "tokens.num_draft_tokens": _READING,
        "tokens.in_plain": ("plain",),
        "evidence.threshold": _ALL,
        "generation.top_k": _WRITING,
        "generation.repetition_penalty": _WRITING,
    }
)
"""What a request may set, and the methods that read it."""
LIMITS = {"retrieval.k": 100, "drafts.num_passages": 100, "drafts.num_drafts": 32}
"""So that one request does not take the server for itself."""


def check_settings(settings: Mapping[str, Any], method: Method, prefix: str = "") -> None:
    """Raise Problem if a setting is none that requests have, or that ``method`` reads.

    Args:
        settings: By their names.
        method: That is to answer.
        prefix: Where the settings stand in the body, such as ``readahead.``.
    """
    for name in settings:
        param = _param(prefix, name)
        if name not in SETTINGS:
            raise Problem(
                400,
                f"{name!r} cannot be set by a request. Those that can: {', '.join(SETTINGS)}.",
                param=param,
                code="unsupported",
            )
        if method not in SETTINGS[name]:
            raise Problem(
                400,
                f"{name} is of the method {' or '.join(SETTINGS[name])}, not of {method}.",
                param=param,
                code="unsupported",
            )


def configured(config: Config, settings: Mapping[str, Any], prefix: str = "") -> Config:
    """Return ``config`` with a request's ``settings``, which ``check_settings`` has let pass.

    Raises:
        Problem: 400, a setting is out of its range, or does not go with another one.
    """
    sections: dict[str, BaseModel] = {}
    for name, value in settings.items():
        param = _param(prefix, name)
        if name in LIMITS and isinstance(value, int | float) and value > LIMITS[name]:
            raise Problem(400, f"{name} may be at most {LIMITS[name]}.", param=param)
        group, _, field = name.partition(".")
        section = sections.get(group) or getattr(config, group)
        try:
            values = {**section.model_dump(), field: value}
            sections[group] = type(section).model_validate(values, strict=True)
        except ValidationError as error:
            message = of_field(name, error.errors()[0]["msg"])
            raise Problem(400, message, param=param) from None
    config = config.model_copy(update=sections)
    if "tokens" in sections:
        try:
            drafts_by_model(config)
        except ConfigError as error:
            blamed = ("tokens.mode", "tokens.dynamic", "tokens.drafter")
            name = next((one for one in blamed if one in settings), blamed[-1])
            raise Problem(400, str(error), param=_param(prefix, name)) from None
    return config


def _param(prefix: str, name: str) -> str:
    return f"{prefix}settings.{name}"


def seeded(config: Config, seed: int) -> Config:
    """Return ``config`` with another seed where its answers are drawn; else as it is."""
    if not config.generation.temperature:
        return config
    generation = config.generation.model_copy(update={"seed": seed})
    return config.model_copy(update={"generation": generation})
