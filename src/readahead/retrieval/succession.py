"""Tells which stored document each new one of a source continues; knows no store.

A file of records names its documents: by what the records call themselves, which lasts, or by the
place where they stand, ``file#3``, which another record has after the next change.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Mapping

_PLACE = re.compile(r"#\d+\Z")


def continued(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return, by names of new documents, the names of the old ones that they continue.

    Content counts before names: what stays the same is the same document wherever it stands. Of
    the others, those of one name are versions of one document; but where records have moved or
    are gone, a place says nothing, and what is not found again is not continued.

    Args:
        old: Digests of what is stored of a source, by name.
        new: Digests of what it holds now, by name.
    """
    found = {name: name for name, digest in new.items() if old.get(name) == digest}
    moved: defaultdict[str, deque[str]] = defaultdict(deque)
    for name, digest in old.items():
        if name not in found:
            moved[digest].append(name)
    for name, digest in new.items():
        if name not in found and moved[digest]:
            found[name] = moved[digest].popleft()
    places_hold = old.keys() <= new.keys() and all(name == was for name, was in found.items())
    over = old.keys() - found.values()
    lasting = (name for name in new if places_hold or not _PLACE.search(name))
    return found | {name: name for name in lasting if name in over and name not in found}
