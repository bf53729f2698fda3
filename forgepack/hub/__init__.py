"""The pinned download: one commit of one repository, byte for byte, and the lock that says so.

huggingface_hub does listing, metadata, authentication and URLs; the bytes come by a ranged transfer of our own,
because that client restarts a file from zero in each call and compares nothing but sizes. It is imported inside
functions, so that importing this package stays cheap.

May import: artifacts, disk.
"""

from forgepack.hub.adopt import AdoptRequest, adopt_checkpoint
from forgepack.hub.client import HubClient, HubSettings
from forgepack.hub.fetch import FetchRequest, fetch_checkpoint, verify_checkpoint
from forgepack.hub.report import Effects, FetchReport, FileReport, Progress, RetryPolicy

__all__ = [
    "AdoptRequest",
    "Effects",
    "FetchReport",
    "FetchRequest",
    "FileReport",
    "HubClient",
    "HubSettings",
    "Progress",
    "RetryPolicy",
    "adopt_checkpoint",
    "fetch_checkpoint",
    "verify_checkpoint",
]
