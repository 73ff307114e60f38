"""A tiny random classifier of pairs as a judge of claims."""

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from readahead.errors import BackendError, InputError, NotFound
from readahead.evidence import check
from readahead.lm.entail import Entailment
from readahead.types import Passage
from tests.conftest import make_llama, make_tokenizer

TEXT = "The café serves tea. It opened in 1990."
LABELS = ("Contradiction", "Neutral", "Entailment")


def make_folder(folder: Path, labels: tuple[str, ...] = LABELS) -> Path:
    """Save a random classifier; it reads 64 tokens at most."""
    tokenizer = make_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertForSequenceClassification(config)
        for parameter in model.parameters():  # as it comes, all texts are alike to it
            torch.nn.init.normal_(parameter, std=1.0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_the_probability_is_that_of_the_label(tmp_path: Path) -> None:
    judge = Entailment.load(str(make_folder(tmp_path)), device="cpu")
    found = judge("Tea is served.", [TEXT])
    model = BertForSequenceClassification.from_pretrained(tmp_path)
    pair = make_tokenizer()(TEXT, "Tea is served.", return_tensors="pt")
    with torch.inference_mode():
        assert found == pytest.approx(float(model(**pair).logits[0].softmax(-1)[2]), abs=1e-5)
    assert judge("Beer is sold.", [TEXT]) != pytest.approx(found, abs=1e-4)


def test_what_does_not_fit_is_cut(tmp_path: Path) -> None:
    judge = Entailment.load(str(make_folder(tmp_path)), device="cpu")
    long = "x" * 500
    assert judge("Tea.", [TEXT, long]) == judge("Tea.", [TEXT, long, long])
    assert 0.0 <= judge(long, [long]) <= 1.0


def test_a_claim_is_checked_with_it(tmp_path: Path) -> None:
    judge = Entailment.load(str(make_folder(tmp_path)), device="cpu")
    passage = Passage("doc", TEXT, 0, len(TEXT))
    claim = "People drink tea at the café."
    with_judge, without = check(claim, [passage], judge=judge), check(claim, [passage])
    assert with_judge.features["judge"] != 0.0
    assert with_judge.score != without.score


def test_a_model_that_judges_nothing_is_refused(tmp_path: Path) -> None:
    other = make_folder(tmp_path / "other", ("good", "bad"))
    with pytest.raises(InputError, match="no label 'entailment'; its labels are good, bad"):
        Entailment.load(str(other), device="cpu")
    causal = tmp_path / "causal"
    make_llama().save_pretrained(causal)
    with pytest.raises(InputError, match="no label 'entailment'"):
        Entailment.load(str(causal), device="cpu")
    with pytest.raises(NotFound):
        Entailment.load("no-such-model", device="cpu")


def test_a_broken_folder_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(BackendError, match="cannot be loaded"):
        Entailment.load(str(folder), device="cpu")
