"""FMT: files are read strictly, and each kind of damage has its own rule."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.verify.checks.faults import reported_row, unowned
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import CATCH_ALL, rule


@rule(
    CATCH_ALL,
    title="no file has a fault that no other rule names",
    fails="a file has a fault that no other rule names",
    why="a reader refused the file",
    remedy="read the message; restore the file from its source",
)
def other(pair: Pair) -> Iterator[Finding]:
    """No reader refused an input for a reason that no other rule owns."""
    return unowned(pair)


ROWS = (
    reported_row(
        "FMT001",
        demand="Every JSON input parses, and its outermost value is an object.",
        title="JSON files are valid JSON of the type that is demanded",
        why="a file that one parser refuses another may read in part",
        remedy="restore the file from its source",
        codes=("json-syntax", "json-type"),
    ),
    reported_row(
        "FMT002",
        demand="No object of any JSON input, safetensors headers included, holds a key twice.",
        title="no JSON object has a key twice",
        fails="a JSON object has a key twice",
        why="of two equal keys some readers keep the first and some the last, so two tools see two contracts",
        remedy="restore the file, or remove the key that does not belong",
        codes=("json-duplicate-key",),
    ),
    reported_row(
        "FMT003",
        demand="Every number of every JSON input is finite and in range.",
        title="JSON files hold no NaN, infinity or overflowing number",
        fails="a JSON file holds NaN, infinity or an overflowing number",
        why="these are not JSON: readers turn them into errors, nulls or strings",
        remedy="write the value as a finite number",
        codes=("json-nonstandard",),
    ),
    reported_row(
        "FMT004",
        demand="Every JSON input is UTF-8 and holds no NUL.",
        title="JSON files are UTF-8 without a byte-order mark",
        why="a mark or another encoding makes strict readers refuse the file and lenient ones misread its first key",
        remedy="save the file as UTF-8 without a byte-order mark",
        codes=("json-encoding",),
    ),
    reported_row(
        "FMT005",
        demand="Every JSON input has at most 64 levels.",
        title="JSON files are not nested too deeply",
        fails="a JSON file is nested too deeply",
        why="deep nesting exhausts a reader's stack; no file of a release needs it",
        remedy="restore the file from its source",
        codes=("json-depth",),
    ),
    reported_row(
        "FMT010",
        demand="No input is the text of a Git LFS pointer.",
        title="no Git LFS pointer stands in place of a file",
        fails="a Git LFS pointer is in place of a file",
        why="the repository was cloned without its large files: the weights were never there",
        remedy="download the file itself: git lfs pull, or forgepack fetch",
        codes=("lfs-pointer",),
    ),
    reported_row(
        "FMT011",
        demand="No input starts like a well-known file of another kind.",
        title="each file is of the kind that its name says",
        why="an HTML page, an archive or a pickle in place of weights is a failed download or another program's file",
        remedy="download the file again and compare its digest",
        codes=("wrong-magic",),
    ),
    reported_row(
        "FMT012",
        demand="No input is shorter than its own header demands.",
        title="no file is truncated",
        fails="a file is truncated",
        why="a cut download keeps its name and often its header; the missing weights read as garbage or zeros",
        remedy="download the file again and compare its size and digest",
        codes=("truncated",),
    ),
    reported_row(
        "FMT013",
        demand="No input is longer than its own header demands.",
        title="nothing follows the last tensor of a file",
        fails="bytes follow the last tensor of a file",
        why="bytes that no tensor covers are data that no reader checks, or a sign of two files run together",
        remedy="restore the file from its source",
        codes=("trailing-bytes",),
    ),
    reported_row(
        "FMT014",
        demand="Every safetensors header is an object of dtype, shape and offsets that fit each other.",
        title="safetensors headers are well formed",
        why="a header that readers take differently gives different weights to different tools",
        remedy="restore the file from its source, or write it again",
        codes=("header", "header-offsets", "dtype"),
    ),
    reported_row(
        "FMT015",
        demand="The tensors of every safetensors input cover its data once, without holes.",
        title="tensors of a file neither overlap nor leave gaps",
        fails="tensors of a file overlap or leave gaps",
        why="overlapping tensors share values and gaps hide bytes; the format demands a dense layout",
        remedy="restore the file from its source, or write it again",
        codes=("header-gap", "header-overlap"),
    ),
    reported_row(
        "FMT016",
        demand="The embedding's header names float16, C order and two axes.",
        title="the embedding is a C-order float16 array of two axes",
        why="another order or type gives every token the embedding of another",
        remedy="restore embed_tokens_fp16.npy from the target's release",
        codes=("npy", "npy-form"),
    ),
)
