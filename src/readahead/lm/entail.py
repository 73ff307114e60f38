"""A classifier of text pairs as a judge of claims: does what was read entail it?

*Approximate*: as good as the model. It reads the two texts together, and of a long first one only
as much as fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from readahead.config import Dtype
from readahead.errors import BackendError, InputError, ReadaheadError
from readahead.lm.model import pick_device, pick_dtype
from readahead.lm.quiet import first_line, quiet_transformers
from readahead.lm.weights import resolve

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LABEL = "entailment"
MAX_TOKENS = 512  # of both texts; such models were trained on no more
NUM_SPARE_POSITIONS = 2  # RoBERTa counts positions from 2 on


class Entailment:
    """A sequence classifier with a label ``entailment``; may be used from one thread at a time."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, name: str = ""
    ) -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._label = _label_of(model.config, name)
        self._max_tokens = _max_tokens(model.config, tokenizer)

    @classmethod
    def load(cls, name_or_path: str, *, device: str = "auto", dtype: Dtype = "auto") -> Self:
        """Load a model that was pulled, or a folder; nothing is downloaded, no code of it is run.

        Raises:
            NotFound: It was not pulled.
            InputError: It is no classifier with a label ``entailment``.
            ConfigError: There is no such device.
            BackendError: Transformers cannot load it.
        """
        folder, place = resolve(name_or_path).folder, pick_device(device)
        precision = pick_dtype("auto" if dtype == "int8" else dtype, place)
        try:
            with quiet_transformers():
                return cls(*_read(folder, name_or_path, precision, place), name=name_or_path)
        except ReadaheadError:
            raise
        # What is wrong with a folder shows as any kind of exception, deep inside the libraries.
        except Exception as error:
            raise BackendError(
                f"The model {name_or_path!r} cannot be loaded: {first_line(error)}.",
                remedy="Pull it again, or choose another as evidence.judge.",
            ) from error

    @torch.inference_mode()
    def __call__(self, claim: str, texts: Sequence[str]) -> float:
        """Return the probability in [0, 1] that the texts, read as one, entail the claim."""
        pair = self._tokenizer(
            " ".join(texts),
            claim,
            truncation="longest_first",
            max_length=self._max_tokens,
            return_tensors="pt",
        ).to(self._model.device)
        logits = self._model(**pair).logits[0].float()  # (labels,)
        return float(logits.softmax(-1)[self._label])


def _read(
    folder: Path, name: str, dtype: torch.dtype, device: torch.device
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return model and tokenizer of a folder.

    Raises:
        ValueError: Some weights are missing, and transformers would make them up.
    """
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    _label_of(AutoConfig.from_pretrained(folder, local_files_only=True), name)
    found: Any = AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=dtype, local_files_only=True, output_loading_info=True
    )
    model, loading = found
    if missing := sorted(loading["missing_keys"]):
        raise ValueError(f"the weights lack {len(missing)} tensors, such as {missing[0]}")
    return model.to(device), AutoTokenizer.from_pretrained(folder, local_files_only=True)


def _label_of(config: Any, name: str) -> int:
    labels = {str(label).lower(): int(i) for i, label in config.id2label.items()}
    if LABEL not in labels:
        raise InputError(
            f"The model {name!r} has no label {LABEL!r}; its labels are {', '.join(labels)}.",
            remedy="Give a sequence classifier for natural language inference as evidence.judge.",
        )
    return labels[LABEL]


def _max_tokens(config: Any, tokenizer: PreTrainedTokenizerBase) -> int:
    positions = getattr(config, "max_position_embeddings", None) or MAX_TOKENS
    return min(MAX_TOKENS, int(tokenizer.model_max_length), positions - NUM_SPARE_POSITIONS)
