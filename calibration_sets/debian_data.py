"""Pictures, a font and texts that Debian carries, unpacked below ``runs/data``: ``make data``.

Every package is pinned by version and digest, since other bytes would be other samples. It is
unpacked, not installed, so nothing of it runs and no rights are needed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "runs" / "data"


@dataclass(frozen=True, slots=True)
class DebianPackage:
    """A package that is used for the files in it.

    Attributes:
        name, version: as apt knows them.
        sha256: of the .deb file.
    """

    name: str
    version: str
    sha256: str


PACKAGES = (
    DebianPackage(
        "tuxpaint-stamps-default",
        "2022.06.04-1",
        "6db6c1bfc870a47f1499d6203b083522eacb57c5f9c87d468f2e92eb6d9d5f34",
    ),
    DebianPackage(
        "fonts-wqy-microhei",
        "0.2.0-beta-3.1",
        "239163df984eea5c9da3b551aee374936222cdbd67f1a1be3cdcf3d76143ad66",
    ),
    DebianPackage(
        "fortunes-zh",
        "2.98",
        "211c5ddee59d0ae74ce01cbfd02f7c8714740bae1835d5661eb2254edd739105",
    ),
    DebianPackage(
        "wordnet-base",
        "1:3.0-37",
        "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
    ),
    DebianPackage(
        "debian-handbook",
        "11.20220922",
        "3d5dbeac1f1afc9c094eab9d0f701f6ecff99c4927d5a4794cf6c85678134faa",
    ),
)


def unpack(package: DebianPackage, folder: Path) -> bool:
    """Download and unpack a package to `folder`/NAME; nothing to do when it is there already.

    Returns:
        Whether anything was done.

    Raises:
        ValueError: when the digest differs.
        OSError: when apt or the package is not there.
        subprocess.CalledProcessError: when it cannot be unpacked.
    """
    target, mark = folder / package.name, folder / f"{package.name}.sha256"
    if target.is_dir() and mark.is_file() and mark.read_text() == package.sha256:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        place.chmod(0o755)  # apt downloads as a user of its own
        archive = _download(package, place)
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != package.sha256:
            raise ValueError(f"{archive.name}: SHA-256 {found}, expected {package.sha256}")
        subprocess.run(["dpkg-deb", "--extract", archive, place / "files"], check=True)
        shutil.rmtree(target, ignore_errors=True)
        (place / "files").rename(target)
    mark.write_text(package.sha256)
    return True


def _download(package: DebianPackage, place: Path) -> Path:
    command = ["apt-get", "--quiet", "--quiet", "download", f"{package.name}={package.version}"]
    done = subprocess.run(command, cwd=place, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise OSError(done.stderr.strip())
    return next(place.glob("*.deb"))


def main() -> int:
    """Unpack every package; 1 when one cannot be had."""
    for package in PACKAGES:
        try:
            done = unpack(package, FOLDER)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            print(f"{package.name} {package.version}: {error}", file=sys.stderr)
            print("It comes with Debian 12; `apt-get update` may be due.", file=sys.stderr)
            return 1
        print(f"{package.name} {package.version}: {'unpacked' if done else 'is there'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
