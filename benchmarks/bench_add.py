"""Time ``add`` on a folder, and how much of it is not the embedding model.

The claim: everything but encoding (reading, cleaning, cutting, storing) is at most 20 % of the
time of ``add``. The floor is the encoder alone, timed inside the same run.

The reference folder is the HTML of Python's documentation: ``apt-get install python3.11-doc`` puts
about 500 pages into ``/usr/share/doc/python3.11/html``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from readahead.config import load_config
from readahead.knowledge import KnowledgeBase
from report import finish, options


def main() -> None:
    """Add the folder to a new knowledge base, then add it again unchanged."""
    parser = options(__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path("/usr/share/doc/python3.11/html")
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as kb:
        config = load_config({"kb": Path(kb), "documents.include": ("*.html",)})
        with KnowledgeBase.open(config) as knowledge:
            assert knowledge.embedder is not None  # loaded before the clock starts
            report = knowledge.add([given.folder])
            again = knowledge.add([given.folder])
    other_s = report.seconds - report.encode_s
    print(f"{report.added} files, {len(report.failed)} failed, {report.passages} passages")
    print(f"all {report.seconds:.1f} s = encode {report.encode_s:.1f} + read {report.read_s:.1f}")
    print(
        f"    + cut and store {other_s - report.read_s:.1f}; again, unchanged: {again.seconds:.1f}"
    )
    finish(
        "add",
        {
            "seconds": report.seconds,
            "encode_s": report.encode_s,
            "read_s": report.read_s,
            "other_share": other_s / report.seconds,
            "unchanged_s": again.seconds,
            "num_files": report.added,
            "num_failed": len(report.failed),
            "num_passages": report.passages,
            "num_encoded": report.encoded,
        },
        models={"embedder": config.models.embedder},
        workload=f"{given.folder.name} folder, *.html",
        n=1,
        out=given.out,
    )


if __name__ == "__main__":
    main()
