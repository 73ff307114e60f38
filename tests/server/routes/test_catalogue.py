from pathlib import Path

import pytest
from openai import NotFoundError, OpenAI

from readahead.server.state import Service
from tests.server.conftest import make_config


def test_models_are_listed_and_shown(served: str, service: Service, tmp_path: Path) -> None:
    with OpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0) as openai:
        assert [model.id for model in openai.models.list()] == ["readahead", "tiny"]
        service.tenant().engine.knowledge.remove(["1", "2", "3"])
        hybrid = make_config(tmp_path, retrieval__mode="hybrid")
        service.tenant().engine.knowledge.config = hybrid
        names = ["readahead", "tiny", "all-minilm-l6-v2"]
        assert [model.id for model in openai.models.list()] == names
        for name in names:
            model = openai.models.retrieve(name)
            assert (model.id, model.object, model.owned_by) == (name, "model", "readahead")
            assert model.created == int(service.started_at)
        with pytest.raises(NotFoundError, match="There are: readahead, tiny") as caught:
            openai.models.retrieve("org/other")
        assert caught.value.code == "model_not_found"
