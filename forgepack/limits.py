"""The bounds of every reader, in numbers: readers take them from here, and docs/reference/limits.md is made of them.

Each bound is far above what a real release needs, and low enough that a hostile file of any kind is refused in
seconds and, for all but tokenizers and Core ML models, in 256 MB of memory beside the tensors' own data.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One bound: what is read, what of it is counted, the greatest number that is taken, and its unit."""

    of: str
    what: str
    value: int
    unit: str = ""


BOUNDS: list[Bound] = []


def _bound(of: str, what: str, value: int, unit: str = "") -> int:
    """Note a bound down in the table and return its number."""
    BOUNDS.append(Bound(of=of, what=what, value=value, unit=unit))
    return value


_JSON = "JSON of every kind"
JSON_DEPTH = _bound(_JSON, "levels of nesting", 64)
# Every integer of so many digits can be turned into a float; real files hold up to 31 (10^30 for "no limit").
JSON_DIGITS = _bound(_JSON, "digits of an integer", 64)
JSON_BYTES = _bound("a JSON document", "size", 16 * MIB, "bytes")
# 65,536 tensors of a safetensors header with three axes each.
JSON_TOKENS = _bound("a JSON document", "brackets, commas and colons outside of texts", 1_000_000)
SMALL_FILE = _bound("a small file (licence, configuration, policy, profile, metadata)", "size", MIB, "bytes")

TOKENIZER_BYTES = _bound("tokenizer.json and tokenizer_config.json", "size", 64 * MIB, "bytes")
# A vocabulary and merges of 500,000 entries each.
TOKENIZER_TOKENS = _bound("tokenizer.json and tokenizer_config.json", "brackets, commas and colons", 4_000_000)
TOKEN_ID = _bound("tokenizer.json and tokenizer_config.json", "id of a token", (1 << 24) - 1)

TOML_BYTES = _bound("TOML (configuration, recipe, policy, waivers)", "size", MIB, "bytes")
# The parser's time grows with the square of a dotted key's parts.
TOML_DOTS = _bound("TOML (configuration, recipe, policy, waivers)", "dots between two equals signs or line ends", 128)

_TENSORS = "a safetensors file"
SAFETENSORS_HEADER = _bound(_TENSORS, "size of the header", 16 * MIB, "bytes")
TENSORS = _bound(_TENSORS, "tensors", 65_536)
DIMENSIONS = _bound("a safetensors file, an array of NumPy", "dimensions of a tensor", 8)
ELEMENTS = _bound("a safetensors file, an array of NumPy", "elements of a tensor", (1 << 62) - 1)

_ARCHIVE = "an archive of NumPy (traces)"
NPZ_MEMBERS = _bound(_ARCHIVE, "members", 20_000)
NPZ_DIRECTORY = _bound(_ARCHIVE, "size of the directory", 16 * MIB, "bytes")
NPY_HEADER = _bound("an array of NumPy", "size of the header", 1024, "bytes")
SEQUENCES = _bound(_ARCHIVE, "sequences of traces", 4096)
SEQUENCE_TOKENS = _bound(_ARCHIVE, "tokens, rows or blocks of a sequence", 65_536)
ALL_TOKENS = _bound(_ARCHIVE, "tokens of all sequences", 8 * MIB)
TRACE_IDENTITY = _bound(_ARCHIVE, "size of the identity", 65_536, "bytes")

SIDECAR_BYTES = _bound("the drafter's sidecar", "size", 16 * MIB, "bytes")
QUANT_REPORT_BYTES = _bound("a quantization's report.json", "size", 4 * MIB, "bytes")
ATTESTATION_BYTES = _bound("an attestation", "size", 16 * MIB, "bytes")
RELEASE_BYTES = _bound("release.json", "size", 16 * MIB, "bytes")
BUILD_LOCK_BYTES = _bound("forgepack.lock", "size", 16 * MIB, "bytes")
REPLAY_BYTES = _bound("a replay's report, a baseline", "size", 16 * MIB, "bytes")
SETTINGS_BYTES = _bound("policy, waivers, timings, deny list as JSON", "size", 16 * MIB, "bytes")
SUMS_BYTES = _bound("SHA256SUMS", "size", 16 * MIB, "bytes")
LOCKED_FILES = _bound("checkpoint.lock.json", "files", 10_000)
MANIFEST_BYTES = _bound("the target's manifest.json", "size", 16 * MIB, "bytes")
MANIFEST_CHUNKS = _bound("the target's manifest.json", "chunks", 1024)
TREE_ENTRIES = _bound("a folder", "files and folders below it", 100_000)

COREML_BYTES = _bound("a Core ML model", "size of model.mlmodel", 64 * MIB, "bytes")
COREML_OPERATIONS = _bound("a Core ML model", "operations of a function", 1_000_000)
MIL_BYTES = _bound("a compiled Core ML model", "size of model.mil", 32 * MIB, "bytes")
MIL_LINES = _bound("a compiled Core ML model", "lines of model.mil", 1_000_000)
MIL_LINE = _bound("a compiled Core ML model", "characters of a line that is looked into", MIB)
MIL_ITEMS = _bound("a compiled Core ML model", "functions, constants and kinds of operations", 200_000)
BLOB_RECORDS = _bound("weight.bin of a Core ML model", "records", 100_000)

CHILD_REPLY = _bound("what the child that reads programs answers", "size", 64 * MIB, "bytes")
CHILD_TOKENS = _bound("what the child that reads programs answers", "brackets, commas and colons", 4_000_000)

_HUB = "an answer of the hub"
HUB_ANSWER = _bound(_HUB, "size, unless it is a file's content", 16 * MIB, "bytes")
HUB_PAGES = _bound("a listing of the hub", "pages", 1000)
HUB_FILES = _bound("a listing of the hub", "files", 100_000)
HUB_REQUESTS = _bound("one command", "requests to the hub", 10_000)
HUB_ANSWER_WAITS = _bound(_HUB, "time from the request to its end, a file's content aside", 4, "times --timeout")
HUB_LISTING_WAITS = _bound("a listing of the hub", "time of all pages", 20, "times --timeout")
