"""What a request may set goes with the methods that read it: each answers and is watched."""

from typing import Any

import pytest

from readahead.config import Config
from readahead.server.problems import Problem
from readahead.server.schemas.settings import SETTINGS, Method, check_settings, configured
from readahead.server.state import Service
from readahead.session import DocumentChat, Session

QUESTION = "How deep is Lake Baikal?"
SECTIONS = {name.partition(".")[0] for name in SETTINGS}
EAGER = {"threshold": 0.0, "jump": 0.0, "cool_down_tokens": 0, "min_similarity": -1.0}
"""So that passages are injected."""


def watched(config: Config, seen: set[str]) -> Config:
    """Return ``config``; the names of what requests may set and is read are added to ``seen``."""

    def watch(group: str) -> Any:
        section = getattr(config, group)
        kind = type(section)

        class Watched(kind):  # type: ignore[misc, valid-type]
            def __getattribute__(self, field: str) -> Any:
                if f"{group}.{field}" in SETTINGS:
                    seen.add(f"{group}.{field}")
                return super().__getattribute__(field)

        return Watched.model_construct(**section.model_dump())

    return config.model_copy(update={group: watch(group) for group in SECTIONS})


def read_by(service: Service, method: str, *, in_session: bool = False) -> set[str]:
    """Return the settings that are read while a question is answered."""
    seen: set[str] = set()
    engine = service.tenant().engine
    inject = engine.config.inject.model_copy(update=EAGER)
    retrieval = engine.config.retrieval.model_copy(update={"k": 1})
    config = engine.config.model_copy(update={"inject": inject, "retrieval": retrieval})
    engine = engine.configured(watched(config, seen))
    if method == "prefetch":
        with Session(engine, inject=True) as session:
            list(session.submit(QUESTION))
    elif in_session:
        list(DocumentChat(engine, "1").submit(QUESTION))
    else:
        is_plain = method == "plain"
        assert engine.ask(QUESTION, method=method, inject=is_plain).method == method
    return seen


@pytest.mark.parametrize("method", ["prefetch", "plain", "drafts", "rapid"])
def test_the_table_says_what_methods_read(service: Service, method: str) -> None:
    said = {name for name, methods in SETTINGS.items() if method in methods}
    assert read_by(service, method) == said


def test_a_session_about_a_document_reads_the_same(service: Service) -> None:
    assert read_by(service, "rapid", in_session=True) == read_by(service, "rapid")


@pytest.mark.parametrize("method", ["prefetch", "plain", "drafts", "rapid"])
def test_what_a_method_does_not_read_is_refused(method: Method) -> None:
    for name, methods in SETTINGS.items():
        if method in methods:
            check_settings({name: 1}, method)
            continue
        with pytest.raises(Problem, match=f"{name} is of the method .*, not of {method}") as caught:
            check_settings({"evidence.threshold": 0.5, name: 1}, method, "readahead.")
        problem = caught.value
        assert problem.param == f"readahead.settings.{name}"
        assert (problem.status, problem.code) == (400, "unsupported")


def test_the_setting_that_is_given_is_named_where_two_do_not_go_together() -> None:
    config = configured(Config(), {"tokens.drafter": "rag", "tokens.mode": "paper"})
    for given in (
        {"tokens.drafter": "lookup"},
        {"tokens.drafter": "lookup", "tokens.mode": "paper"},
    ):
        with pytest.raises(Problem, match="Set tokens.drafter to rag") as caught:
            configured(config, given)
        assert caught.value.param == f"settings.{list(given)[-1]}"
    with pytest.raises(Problem, match=r"leave tokens\.dynamic out") as caught:
        configured(Config(), {"tokens.dynamic": True})
    assert caught.value.param == "settings.tokens.dynamic"
