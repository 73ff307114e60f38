"""The figures of docs/tokens.md are those of its benchmark."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_page_has_the_figures_of_the_benchmark() -> None:
    script = ROOT / "scripts" / "make_rapid_docs.py"
    subprocess.run([sys.executable, script, "--check"], check=True)
