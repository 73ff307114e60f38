"""An acknowledged change survives a kill at any write step; an unfinished one leaves no trace."""

import subprocess
import sys
from pathlib import Path

import pytest

from readahead.retrieval.store import Store
from tests.retrieval.killed import EMBEDDER, act
from tests.retrieval.support import add, document, found, source

ROOT = Path(__file__).parents[2]
State = dict[str, str]


def make_base(folder: Path) -> None:
    with Store.open(folder) as store:
        records = source(
            "records",
            document("records#1", "The observatory opens at nine."),
            document("records#2", "Fog closes the northern road."),
            document("records#3", "An old entry of the observatory."),
        )
        add(store, records, source("other", document("other", "Nothing.")), embedder=EMBEDDER)
        found(store, "observatory", EMBEDDER)  # Leaves a cache behind.


def state(store: Store) -> State:
    return {info.name: store.document(info.name).text for info in store.documents()}


@pytest.mark.parametrize("action", ["add", "rm"])
def test_a_kill_leaves_the_old_or_the_new_state(tmp_path: Path, action: str) -> None:
    make_base(tmp_path / "base")
    with Store.open(tmp_path / "base") as store:
        old = state(store)
    make_base(tmp_path / "done")
    with Store.open(tmp_path / "done") as store:
        act(store, action)
        new = state(store)
    command = [sys.executable, "-m", "tests.retrieval.killed", str(tmp_path), action]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    numbers = sorted(int(path.name) for path in tmp_path.iterdir() if path.name.isdigit())
    copies = [tmp_path / str(number) for number in numbers]
    outcomes = [outcome(copy, old, new) for copy in copies]
    assert outcomes == sorted(outcomes)  # Once the change is kept, it is kept at all later steps.
    assert (outcomes[0], outcomes[-1]) == (False, True)


def outcome(copy: Path, old: State, new: State) -> bool:
    """Return whether the change was kept, after checking that everything agrees with that."""
    is_acknowledged = copy.with_suffix(".acknowledged").exists()
    with Store.open(copy, create=False) as store:
        assert store.check() == []
        is_new = state(store) == new
        assert is_new or (state(store) == old and not is_acknowledged)
        # Vectors find every document, so the names show what is in the vector index.
        names = found(store, "observatory", EMBEDDER)
        assert sorted(names) == sorted(new if is_new else old)
        words = found(store, "fog snow comets entry nothing")
        assert set(words) <= set(new if is_new else old)
    return is_new
