"""Writes real wheels that pip accepts, with data files in them."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder: Path, name: str, version: str, files: Mapping[str, bytes]) -> Path:
    """Write ``name``-``version`` with ``files`` into ``folder``."""
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in files.items():
            archive.writestr(member, content)
        archive.writestr(f"{stem}.dist-info/METADATA", METADATA.format(name=name, version=version))
        archive.writestr(f"{stem}.dist-info/WHEEL", WHEEL)
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    return path
