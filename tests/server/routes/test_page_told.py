"""What the server says itself has Chinese words on the page: its sources are read for it."""

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import get_args, get_type_hints

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

import readahead
from readahead.config import Config
from readahead.evidence.opposites import Opposition
from readahead.evidence.values import Kind
from readahead.server.problems import Problem, problem_of
from readahead.server.routes.page import FILES
from readahead.server.routes.search import SearchRequest
from readahead.server.routes.sessions import NewSession, Typing
from readahead.server.schemas.requests import ChatRequest
from readahead.server.schemas.settings import SETTINGS, configured

SOURCES = Path(readahead.__file__).parent
TABLE = "zhserver.js"
SPEAKERS = {
    *("Problem", "unsupported", "_refused", "_malformed", "Failed"),
    *("InputError", "ContextOverflow", "NotFound", "BackendError", "DocumentError", "Failure"),
    "ConfigError",
}
# Where questions, uploads and searches of the page may fail.
ASKED = (
    *("documents/*.py", "retrieval/index.py", "retrieval/rows.py", "retrieval/changes.py"),
    *("engine.py", "plain.py", "drafted.py", "rapid.py", "retrieved.py", "turns.py"),
    *("session/session.py", "session/document_chat.py", "speculation/answers/asking.py"),
    *("speculation/tokens/drafters.py", "lm/prompt.py", "lm/batch.py"),
    *("server/*.py", "server/schemas/*.py", "server/guard/*.py"),
    *(f"server/routes/{name}.py" for name in ("answering", "chat", "documents", "uploads")),
    *(f"server/routes/{name}.py" for name in ("search", "sessions", "traces")),
)
# Before it serves.
BEFORE = {"server/run.py", "server/guard/keys.py", "server/guard/hosts.py", "errors.py"}
# Functions whose strings are shown: reasons, notes.
SAYING = {
    "speculation/retrieval/gate.py": ("wait", "decide"),
    "speculation/answers/choose.py": ("_by_probability", "reason", "_not_worth", "_against"),
    "errors.py": ("outline",),
    "session/worker.py": ("_do",),
    "drafted.py": ("notes_of", "_insufficient", "_tried"),
    "engine.py": ("_drafted",),
    "plain.py": ("fitting_notes",),
    "citing.py": ("_claimed_support",),
    "documents/read.py": ("reason_of_death",),
    "documents/jsonl.py": ("_reason", "_read_line"),
    "server/jobs.py": ("_index", "_reason"),
    "server/problems.py": ("_invalid",),
    "server/guard/bodies.py": ("_reason",),
}
# Modules whose constants are shown.
CONSTANTS = (
    *("engine.py", "reply.py", "rapid.py", "drafted.py", "server/jobs.py", "documents/files.py"),
    *("session/document_chat.py", "session/conversation.py", "server/problems.py"),
)
# Values that fields of requests may not have, all or some of them.
WRONG: tuple[object, ...] = (
    *(None, True, -1, 0, 0.5, 10**9, 2**64, math.nan, math.inf, "", "x", "x" * 30_000),
    *([], ["x"], [1], [[]], ["x"] * 3000, {}, {"x": 1}, dict.fromkeys(map(str, range(99)), 1)),
    {"x": json.loads("[" * 99 + "]" * 99)},
)
SLOT = "\x00"  # where a value stands
QUOTED = r'"(?:[^"\\]|\\.)*"'


def table() -> dict[str, str]:
    """Return the page's table, read as the JSON that it nearly is."""
    text = FILES[TABLE].read_text(encoding="utf-8")
    pairs = re.findall(rf"^  ({QUOTED}|\w+): ({QUOTED}),$", text, re.MULTILINE)
    return {
        english if english.isalpha() else json.loads(english): json.loads(chinese)
        for english, chinese in pairs
    }


def text_of(node: ast.expr) -> str | None:
    """Return a string of the source with slots for its values; None if it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"\{\}", SLOT, node.value)
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else SLOT for part in node.values)
        return "".join(map(str, parts))
    return None


def texts_of_calls(tree: ast.AST) -> Iterator[str]:
    """Yield what errors say, and what is to be done about them."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in SPEAKERS:
            given = node.args[1:] if node.func.id == "unsupported" else node.args
            remedies = [word.value for word in node.keywords if word.arg == "remedy"]
            yield from filter(None, map(text_of, [*given, *remedies]))


def texts_of_functions(tree: ast.AST, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the strings of several words in functions of these names, but their docstrings."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name in names:
            yield from texts_in(function.body[1:] if ast.get_docstring(function) else function.body)


def texts_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("_log.", "re.")):
            continue
        text = text_of(node) if isinstance(node, ast.expr) else None
        if text is None:
            yield from texts_in(ast.iter_child_nodes(node))
        elif " " in text.strip() and "%s" not in text and not text.startswith("."):
            yield text


def texts_of_constants(tree: ast.Module) -> Iterator[str]:
    """Yield the constants of a module that are texts, or tables of texts."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            value = node.value
            yield from texts_in(value.values if isinstance(value, ast.Dict) else [value])


def said() -> dict[str, str]:
    """Return all texts that the page may show, with the module that says them."""
    found: dict[str, str] = {}
    modules = {path for pattern in ASKED for path in SOURCES.glob(pattern)}
    modules |= {SOURCES / name for name in (*SAYING, *CONSTANTS)}
    for path in sorted(modules):
        name = path.relative_to(SOURCES).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = [] if name in BEFORE else list(texts_of_calls(tree))
        texts += texts_of_functions(tree, SAYING.get(name, ()))
        texts += texts_of_constants(tree) if name in CONSTANTS else []
        found |= {text: name for text in texts if re.search("[a-z]{2}", text)}
    return found


def complaints() -> Iterator[tuple[str, str]]:
    """Yield what is said of wrong values in the page's requests and in its settings."""
    for request in (ChatRequest, NewSession, SearchRequest, Typing):
        for name, value in product(request.model_fields, WRONG):
            try:
                request.model_validate({name: value}, from_attributes=True)
            except ValidationError as error:
                for one in error.errors():
                    asked = RequestValidationError([{**one, "loc": ("body", *one["loc"])}])
                    yield problem_of(asked).message, request.__name__
            except Problem as problem:
                yield problem.message, request.__name__
    for name, value in product(SETTINGS, WRONG):
        try:
            configured(Config(), {name: value})
        except Problem as problem:
            yield problem.message, name


def samples() -> dict[str, str]:
    """Return the same with numbers for the values; what a text may end with is left out."""
    told = {re.sub(rf"\.{SLOT}$", ".", text): name for text, name in said().items()}
    return {text.replace(SLOT, "7").strip(): name for text, name in told.items()}


def descriptions() -> dict[str, str]:
    """Return what is told of each setting that the page shows."""
    sections = {name: field.annotation for name, field in Config.model_fields.items()}
    fields = {name: name.partition(".")[::2] for name in SETTINGS}
    return {
        name: sections[section].model_fields[field].description or ""  # type: ignore[union-attr]
        for name, (section, field) in fields.items()
    }


PATTERNS = [
    re.compile("(.*?)".join(map(re.escape, re.split(r"\{\w+\}", english))), re.DOTALL)
    for english in table()
]


def is_known(text: str) -> bool:
    """Return whether the page knows a text, whole or sentence by sentence."""
    if any(pattern.fullmatch(text) for pattern in PATTERNS):
        return True
    ends = [end.start() + 1 for end in re.finditer(r"[.:] ", text)]
    return any(is_known(text[:end]) and is_known(text[end + 1 :]) for end in ends)


def test_what_the_server_says_has_chinese_words() -> None:
    """If this fails: add the text to the table, with {names} for its values."""
    found = samples()
    assert len(found) > 150
    unknown = {text: name for text, name in found.items() if not is_known(text)}
    assert unknown == {}, f"without Chinese words in {TABLE}"


def test_what_is_said_of_wrong_values_has_chinese_words() -> None:
    found = dict(complaints())
    assert len(found) > 100
    unknown = {text: name for text, name in found.items() if not is_known(text)}
    assert unknown == {}, f"without Chinese words in {TABLE}"


def test_each_setting_is_described_in_both_languages() -> None:
    chinese = table()
    for name, text in descriptions().items():
        assert text and not re.search("[ρηγ]", text), name
        assert text in chinese, name


def test_what_contradicts_has_chinese_words() -> None:
    kinds = (*get_args(Kind), *get_args(get_type_hints(Opposition)["kind"]))
    assert len(kinds) > 5
    for kind in kinds:
        assert kind in table()


def test_chinese_words_are_chinese_and_have_the_same_values() -> None:
    for english, chinese in table().items():
        assert re.search("[\u4e00-\u9fff]", chinese), english
        slots = sorted(re.findall(r"\{\w+\}", english))
        assert sorted(re.findall(r"\{\w+\}", chinese)) == slots, english
        assert len(set(slots)) == len(slots), english


def test_every_line_of_the_table_is_read() -> None:
    text = FILES[TABLE].read_text(encoding="utf-8")
    assert len(table()) == len(re.findall(r'^  ["\w].*",$', text, re.MULTILINE)) > 150


def test_kinds_of_what_is_cleaned_away_have_words() -> None:
    """Each kind that a reader of files counts, as far as it stands in its source as a string."""
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("documents/*.py"))
    kinds = set(re.findall(r'removed\["(\w+)"\]', text)) | set(
        re.findall(r'_counted\([^)]*"(\w+)"\)', text)
    )
    assert {"control", "front_matter"} <= kinds
    kinds |= {"page_number", "running_header", "running_footer"}  # made up of parts there
    for name in ("en.js", "zh.js"):
        words = FILES[name].read_text(encoding="utf-8")
        for kind in kinds:
            assert f'"cleaned.{kind}"' in words, (name, kind)
