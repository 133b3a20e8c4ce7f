"""Files of published packages that are downloaded and never installed: pip fetches them, of one version and with one content."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

STORE = Path(sys.prefix) / "packages"
"""In the environment, so that what is made anew is not downloaded anew."""


@dataclass(frozen=True)
class Package:
    """A wheel: its version, the SHA-256 of the file, and the platform that it is for. Nothing of it is run here."""

    name: str
    version: str
    digest: str
    platform: str = "any"
    python: str = "3.12"


class NotDownloadedError(Exception):
    """A package is not to be had here."""


def fetch(package: Package) -> zipfile.ZipFile:
    """Opens a wheel, which is downloaded if it is not there yet."""
    folder = STORE / f"{package.name}-{package.version}"
    (wheel,) = list(folder.glob("*.whl")) or [download(package, folder)]
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != package.digest:
        wheel.unlink()
        raise ValueError(f"{wheel.name} has the digest {found}, expected {package.digest}")
    return zipfile.ZipFile(wheel)


def download(package: Package, folder: Path) -> Path:
    """Asks pip for the wheel of that platform, without what it depends on. It appears in the folder as a whole: other processes may
    want it at the same time."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", scratch]
        platform = ["--platform", package.platform, "--python-version", package.python]
        wanted = f"{package.name}=={package.version}"
        command = [sys.executable, "-m", "pip", "download", *options, *platform, wanted]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise NotDownloadedError(f"cannot download {wanted}: {result.stderr.strip()[-200:]!r}")
        (wheel,) = Path(scratch).glob("*.whl")
        return wheel.replace(folder / wheel.name)
