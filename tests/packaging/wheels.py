"""Small wheels in a folder that pip takes for an index: what a model package looks like, without a network."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path


def make_wheel(folder: Path, package: str, version: str, *, files: Mapping[str, bytes]) -> str:
    """Write PACKAGE-VERSION-py3-none-any.whl into `folder`; gives its sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    name = package.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    members = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_record_digest(content)},{len(content)}\n" for path, content in members.items())
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in {**members, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(path, content)
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def _record_digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
