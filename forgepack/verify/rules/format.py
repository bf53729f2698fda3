"""FMT: files are read strictly, and each kind of damage has its own rule."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.verify.checks.faults import reported, unowned
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import CATCH_ALL, rule


@rule(
    "FMT001",
    title="JSON files are valid JSON of the type that is demanded",
    why="a file that one parser refuses another may read in part",
    remedy="restore the file from its source",
    codes=("json-syntax", "json-type"),
)
def json_syntax(pair: Pair) -> Iterator[Finding]:
    """Every JSON input parses, and its outermost value is an object."""
    return reported(pair, "FMT001")


@rule(
    "FMT002",
    title="no JSON object has a key twice",
    why="of two equal keys some readers keep the first and some the last, so two tools see two contracts",
    remedy="restore the file, or remove the key that does not belong",
    codes=("json-duplicate-key",),
)
def json_duplicate_key(pair: Pair) -> Iterator[Finding]:
    """No object of any JSON input, safetensors headers included, holds a key twice."""
    return reported(pair, "FMT002")


@rule(
    "FMT003",
    title="JSON files hold no NaN, infinity or overflowing number",
    why="these are not JSON: readers turn them into errors, nulls or strings",
    remedy="write the value as a finite number",
    codes=("json-nonstandard",),
)
def json_nonstandard(pair: Pair) -> Iterator[Finding]:
    """Every number of every JSON input is finite and in range."""
    return reported(pair, "FMT003")


@rule(
    "FMT004",
    title="JSON files are UTF-8 without a byte-order mark",
    why="a mark or another encoding makes strict readers refuse the file and lenient ones misread its first key",
    remedy="save the file as UTF-8 without a byte-order mark",
    codes=("json-encoding",),
)
def json_encoding(pair: Pair) -> Iterator[Finding]:
    """Every JSON input is UTF-8 and holds no NUL."""
    return reported(pair, "FMT004")


@rule(
    "FMT005",
    title="JSON files are not nested too deeply",
    why="deep nesting exhausts a reader's stack; no file of a release needs it",
    remedy="restore the file from its source",
    codes=("json-depth",),
)
def json_depth(pair: Pair) -> Iterator[Finding]:
    """Every JSON input has at most 64 levels."""
    return reported(pair, "FMT005")


@rule(
    "FMT010",
    title="no Git LFS pointer stands in place of a file",
    why="the repository was cloned without its large files: the weights were never there",
    remedy="download the file itself: git lfs pull, or forgepack fetch",
    codes=("lfs-pointer",),
)
def lfs_pointer(pair: Pair) -> Iterator[Finding]:
    """No input is the text of a Git LFS pointer."""
    return reported(pair, "FMT010")


@rule(
    "FMT011",
    title="each file is of the kind that its name says",
    why="an HTML page, an archive or a pickle in place of weights is a failed download or another program's file",
    remedy="download the file again and compare its digest",
    codes=("wrong-magic",),
)
def wrong_magic(pair: Pair) -> Iterator[Finding]:
    """No input starts like a well-known file of another kind."""
    return reported(pair, "FMT011")


@rule(
    "FMT012",
    title="no file is truncated",
    why="a cut download keeps its name and often its header; the missing weights read as garbage or zeros",
    remedy="download the file again and compare its size and digest",
    codes=("truncated",),
)
def truncated(pair: Pair) -> Iterator[Finding]:
    """No input is shorter than its own header demands."""
    return reported(pair, "FMT012")


@rule(
    "FMT013",
    title="nothing follows the last tensor of a file",
    why="bytes that no tensor covers are data that no reader checks, or a sign of two files run together",
    remedy="restore the file from its source",
    codes=("trailing-bytes",),
)
def trailing_bytes(pair: Pair) -> Iterator[Finding]:
    """No input is longer than its own header demands."""
    return reported(pair, "FMT013")


@rule(
    "FMT014",
    title="safetensors headers are well formed",
    why="a header that readers take differently gives different weights to different tools",
    remedy="restore the file from its source, or write it again",
    codes=("header", "header-offsets", "dtype"),
)
def header(pair: Pair) -> Iterator[Finding]:
    """Every safetensors header is an object of dtype, shape and offsets that fit each other."""
    return reported(pair, "FMT014")


@rule(
    "FMT015",
    title="tensors of a file neither overlap nor leave gaps",
    why="overlapping tensors share values and gaps hide bytes; the format demands a dense layout",
    remedy="restore the file from its source, or write it again",
    codes=("header-gap", "header-overlap"),
)
def header_layout(pair: Pair) -> Iterator[Finding]:
    """The tensors of every safetensors input cover its data once, without holes."""
    return reported(pair, "FMT015")


@rule(
    "FMT016",
    title="the embedding is a C-order float16 array of two axes",
    why="another order or type gives every token the embedding of another",
    remedy="restore embed_tokens_fp16.npy from the target's release",
    codes=("npy", "npy-form"),
)
def array_form(pair: Pair) -> Iterator[Finding]:
    """The embedding's header names float16, C order and two axes."""
    return reported(pair, "FMT016")


@rule(
    CATCH_ALL,
    title="no file has a fault that no other rule names",
    why="a reader refused the file",
    remedy="read the message; restore the file from its source",
)
def other(pair: Pair) -> Iterator[Finding]:
    """No reader refused an input for a reason that no other rule owns."""
    return unowned(pair)
