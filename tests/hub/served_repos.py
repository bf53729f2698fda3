"""What the hub on loopback holds: files, commits, repositories, and who may read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forgepack.miniature.small_hub import ServedFile, read_folder, served_files

Content = Path | Mapping[str, bytes]


@dataclass(slots=True, kw_only=True)
class ServedRepo:
    """One repository: its commits and branches; ``token`` opens it when it is gated or private."""

    commits: dict[str, dict[str, ServedFile]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    token: str = ""


@dataclass(slots=True, kw_only=True)
class ServedRepos:
    """Everything served: repositories by name, the addresses of both origins, entries a page, path prefix."""

    repos: dict[str, ServedRepo] = field(default_factory=dict)
    url: str = ""
    storage_url: str | None = None
    page: int | None = None
    prefix: str = ""

    def add(self, repo: str, commit: str, files: Content) -> ServedRepo:
        """Add a commit and move ``main`` to it; a folder is read now, without hidden entries and locks."""
        served = self.repos.setdefault(repo, ServedRepo())
        served.commits[commit] = served_files(read_folder(files) if isinstance(files, Path) else files)
        served.refs["main"] = commit
        return served
