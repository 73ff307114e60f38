"""One conversation that a client holds by an id: who may ask, and what was said; knows no route."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from readahead.errors import NotFound
from readahead.lm.base import Cancelled, never
from readahead.lm.sample import SamplingParams
from readahead.reply import Event
from readahead.retrieval.schema import storable
from readahead.server.problems import Problem, unsupported
from readahead.session import DocumentChat, Session, Status
from readahead.types import Answer, Citation, FinishReason, Passage

TYPING_S = 60.0  # without a stroke, after which nobody types any more
NUM_KEPT = 100  # questions and answers; what is older is not told any more
NOT_AHEAD = "The method rapid reads nothing ahead."
_ID_BYTES = 24
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage or a citation stands; its words go with its document, so they are not here.

    Attributes:
        marker: The number of a citation; None for a passage that was shown.
    """

    passage_id: str
    document: str
    heading: tuple[str, ...]
    page: int | None
    start: int
    end: int
    marker: int | None = None

    @classmethod
    def of(cls, found: Passage | Citation) -> Place:
        """Return the place of a passage or a citation."""
        id, marker = (
            (found.passage_id, found.marker) if isinstance(found, Citation) else (found.id, None)
        )
        return cls(id, found.document, found.heading, found.page, found.start, found.end, marker)


@dataclass(frozen=True, slots=True)
class Said:
    """A question and its answer.

    Attributes:
        finish_reason: ``cancelled`` also where the client left.
        passages: Those that were shown for this question; none where a whole document is read.
    """

    question: str
    answer: str
    finish_reason: FinishReason
    abstained: bool = False
    trace_id: str = ""
    citations: tuple[Place, ...] = ()
    passages: tuple[Place, ...] = ()


class ServedSession:
    """One conversation with an id; safe to use from several threads.

    Args:
        about: The conversation itself.
        settings: As it was opened, as JSON values.
        clock: Tells seconds.
        on_answered: Called when an answer has ended, however it did.

    Attributes:
        said: The last questions and answers, as many as are kept.
        num_said: How many there were.
        created_at: In seconds since the epoch, as ``last_used_at``.
    """

    def __init__(
        self,
        about: Session | DocumentChat,
        settings: dict[str, object],
        *,
        clock: Clock = time.monotonic,
        on_answered: Callable[[], object] = lambda: None,
    ) -> None:
        self.id = secrets.token_urlsafe(_ID_BYTES)
        self.settings = settings
        self.said: tuple[Said, ...] = ()
        self.num_said = 0
        self.created_at = self.last_used_at = time.time()
        self._about = about
        self._clock = clock
        self._on_answered = on_answered
        self._used_s = clock()
        self._is_line_empty = True
        self._state = threading.Lock()  # of the next two
        self._is_answering = False
        self._is_closed = False

    @property
    def is_answering(self) -> bool:
        """Return whether an answer is being given."""
        return self._is_answering

    @property
    def idle_s(self) -> float:
        """Return for how long nothing was typed or answered."""
        return 0.0 if self._is_answering else self._clock() - self._used_s

    @property
    def is_busy(self) -> bool:
        """Return whether an answer is being given, or a question is being typed."""
        is_typed = not self._is_line_empty and self.idle_s < TYPING_S
        return self._is_answering or is_typed

    @property
    def num_bytes(self) -> int:
        """Return the memory that what was read takes, beside the prefix tree."""
        return self._about.num_bytes

    def release(self) -> int:
        """Give that memory back soon, unless it is busy; return how many bytes that is."""
        if self.is_busy:
            return 0
        num_bytes = self.num_bytes
        self._about.release()
        return num_bytes

    @property
    def status(self) -> Status:
        """Return what is ready for the question that is being typed."""
        about = self._about
        return about.status if isinstance(about, Session) else Status(reason=NOT_AHEAD)

    @property
    def suggestions(self) -> tuple[str, ...]:
        """Return questions that may come next."""
        return self._about.suggestions() if isinstance(self._about, Session) else ()

    def type(self, text: str) -> None:
        """Say what stands in the input line now; returns at once."""
        self._touch()
        self._is_line_empty = not text.strip()
        if isinstance(self._about, Session):
            self._about.type(text)

    def submit(
        self,
        question: str,
        *,
        params: SamplingParams | None = None,
        cancelled: Cancelled = never,
    ) -> Generator[Event]:
        """Yield the answer's text piece by piece, each citation before its marker, then the Answer.

        Args:
            question: What was typed in the end, or anything else.
            params: How tokens are chosen; None: as the session's settings say.
            cancelled: Asked before each model step; True ends the answer there. So does closing
                the session.

        Raises:
            Problem: 409, the session is answering already; 400, ``params`` for the method rapid.
            NotFound: The session was closed; or its document has gone.
            InputError: The question is blank, or too long for the target's context.
        """
        with self._answering():
            num_before, text = self._num_turns, ""
            answer: Answer | None = None
            try:
                with closing(self._events(question, params, cancelled)) as events:
                    for event in events:
                        if isinstance(event, str):
                            text += event
                        elif isinstance(event, Answer):
                            answer = event
                        yield event
            finally:
                if answer or text or self._num_turns > num_before:
                    self._note(storable(question.strip()), text, answer, num_before)

    def retire(self) -> bool:
        """Let nothing more be asked, unless it is answering; return whether that is so."""
        with self._state:
            self._is_closed = self._is_closed or not self._is_answering
            return self._is_closed

    def close(self) -> None:
        """End the answer that runs, if any, and all guessing, within one model step."""
        with self._state:
            self._is_closed = True
        if isinstance(self._about, Session):
            self._about.close()

    def _events(
        self, question: str, params: SamplingParams | None, cancelled: Cancelled
    ) -> Generator[Event]:
        about = self._about

        def is_over() -> bool:
            return self._is_closed or cancelled()

        if isinstance(about, Session):
            return about.submit(question, params=params, cancelled=is_over)
        if params is not None:
            raise unsupported("temperature", "a session by rapid answers as its settings say")
        return about.submit(question, cancelled=is_over)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Let no other answer of this session begin during the ``with`` body."""
        with self._state:
            if self._is_closed:
                raise gone()
            if self._is_answering:
                raise Problem(
                    409,
                    "The session is answering already. Read that answer to its end, or end it.",
                    param="readahead.session",
                    code="session_busy",
                )
            self._is_answering, self._is_line_empty = True, True
        try:
            yield
        finally:
            self._touch()
            self._is_answering = False
            self._on_answered()

    @property
    def _num_turns(self) -> int:
        return len(self._about.turns) if isinstance(self._about, Session) else 0

    def _note(self, question: str, text: str, answer: Answer | None, num_before: int) -> None:
        about = self._about
        new = about.turns[num_before:] if isinstance(about, Session) else ()
        passages = tuple(Place.of(passage) for turn in new for passage in turn.passages)
        if answer is None:
            said = Said(question, text, "cancelled", passages=passages)
        else:
            said = Said(
                question,
                answer.text,
                answer.finish_reason,
                answer.abstained,
                answer.trace_id,
                tuple(map(Place.of, answer.citations)),
                passages,
            )
        self.said = (*self.said, said)[-NUM_KEPT:]
        self.num_said += 1

    def _touch(self) -> None:
        self._used_s, self.last_used_at = self._clock(), time.time()


def gone() -> NotFound:
    """Return the error for an id that no session has."""
    return NotFound(
        "There is no such session, or it was idle for too long.",
        remedy="Open one: POST /v1/sessions.",
    )
