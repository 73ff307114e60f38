"""The models of the settings, each loaded once and at its first use; knows no documents."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, partial
from typing import Generic, TypeVar

from readahead.config import Config, Dtype
from readahead.evidence import Judge
from readahead.knowledge import load_embedder
from readahead.lm.entail import Entailment
from readahead.lm.model import TransformersModel, load_named
from readahead.retrieval.base import Embedder
from readahead.turns import Turns

T = TypeVar("T")


class Loaded:
    """What engines share: the models, and the thread that has them.

    Args:
        config: Names the models, their devices and precisions.
        target: Instead of the one that ``config`` names.
    """

    def __init__(self, config: Config, target: TransformersModel | None = None) -> None:
        self.turns = Turns()
        self._config = config
        self._models: dict[tuple[str, str, Dtype], TransformersModel] = {}
        self._loading = threading.Lock()  # the first questions may come at once
        self._judge = _Once(self._load_judge)
        self._embedder = _Once(partial(load_embedder, config.models))
        if target is not None:
            self.target = target

    @property
    def has_target(self) -> bool:
        """Return whether the model that owns the answers is loaded."""
        return "target" in vars(self)

    @cached_property
    def target(self) -> TransformersModel:
        """Return the model that owns the answers.

        Raises:
            NotFound: It was not pulled.
            InputError: It is an embedding model.
        """
        return self._load(*self._config.models.target_place)

    @cached_property
    def drafter(self) -> TransformersModel:
        """Return the model that writes drafts; the target, where no other is named.

        Raises:
            NotFound: It was not pulled.
            InputError: It is an embedding model.
        """
        models = self._config.models
        if models.drafter_place == models.target_place:
            return self.target
        return self._load(*models.drafter_place)

    def forget_texts(self) -> None:
        """Have the models' tokenizers forget which texts they encoded."""
        own = [self.target] if self.has_target else []
        for model in (*own, *list(self._models.values())):
            model.tokenizer.forget()

    @cached_property
    def judge(self) -> Judge | None:
        """Return the entailment model that judges claims, None where the settings name none.

        Raises:
            NotFound: It was not pulled.
            InputError: It is no entailment model.
        """
        return self._judge()

    @cached_property
    def embedder(self) -> Embedder:
        """Return the model that embeds passages and queries, of all knowledge bases.

        Raises:
            NotFound: It was not pulled.
            ConfigError: The extra ``dense`` is not installed.
        """
        return self._embedder()

    def _load_judge(self) -> Judge | None:
        name, device = self._config.evidence.judge, self._config.models.device
        return self.turns.run(partial(Entailment.load, name, device=device)) if name else None

    def _load(self, name: str, device: str, dtype: Dtype) -> TransformersModel:
        place = (name, device, dtype)
        num_tokens = self._config.models.prefill_step_tokens
        load = partial(load_named, *place, prefill_step_tokens=num_tokens)
        with self._loading:
            if place not in self._models:
                self._models[place] = self.turns.run(load)
            return self._models[place]


class _Once(Generic[T]):
    """What is made at its first use, and once, however many want it at the same time."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._lock = threading.Lock()

    def __call__(self) -> T:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]
