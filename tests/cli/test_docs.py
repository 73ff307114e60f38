import os
import subprocess
import sys
from pathlib import Path

import pytest

import tests
from readahead.config import Config

ROOT = Path(tests.__file__).parents[1]
SCRIPT = ROOT / "scripts" / "make_cli_docs.py"
PAGES = ("cli.md", "configuration.md")


@pytest.mark.parametrize("columns", ["20", "300"])
def test_the_references_are_up_to_date_on_any_terminal(tmp_path: Path, columns: str) -> None:
    settings = {"READAHEAD_KB": "elsewhere", "READAHEAD_RETRIEVAL__K": "9"}
    environment = {**os.environ, **settings, "COLUMNS": columns, "FORCE_COLOR": "1"}
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], env=environment, check=True)
    for page in PAGES:
        made = (tmp_path / page).read_text(encoding="utf-8")
        kept = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert made == kept, f"docs/{page} is stale: run python scripts/make_cli_docs.py"


def test_every_setting_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for section, values in Config().model_dump().items():
        names = [f"{section}__{name}" for name in values] if isinstance(values, dict) else [section]
        for name in names:
            assert f"`READAHEAD_{name.upper()}`" in page
