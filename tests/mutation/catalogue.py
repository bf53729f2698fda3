"""All mutants of a pair, the areas that must refuse each, and the mutations that are legal, with their reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from tests.mutation import form_mutants
from tests.mutation.adopted_mutants import adopted_mutants
from tests.mutation.field_mutants import LEGAL_FIELDS, TOLD_FIELDS, field_mutants
from tests.mutation.file_mutants import file_mutants
from tests.mutation.json_mutants import JsonMutant, json_mutants
from tests.mutation.program_mutants import program_mutants
from tests.mutation.row_mutants import row_mutants
from tests.mutation.stage import Mutant, Stage
from tests.mutation.tensor_mutants import array_mutants, tensor_mutants

# Path below the sidecar -> areas, the first match counts. PKG022 (the asset's digest of the sidecar) alone does not
# count where the field has an area of its own.
_SIDECAR = (
    (r"(W|T|R|RP|target_export|head_export)\b", ("CTR",)),
    (r"(resid_scale|lut_f|feat_scale|mask_scale)\b", ("NUM", "CTR")),
    (r"(mb|entries|export)\b", ("PKG", "CTR")),
    (r"forgepack\.(schema|profile|runtime)\b", ("CTR",)),
    (r"forgepack\.checkpoint\b", ("SRC",)),
    (r"forgepack\.quantization\b", ("SRC", "NUM")),
    (r"forgepack\.target\.taps\b", ("TAP",)),
    (r"forgepack\.target\.head\b", ("HEAD",)),
    (r"forgepack\.target\.(embedding|mask_row)\b", ("WGT",)),
    (r"forgepack\.target\.tokenizer\.(template|settings)_sha256\b", ("TOK", "CTR")),  # null when there is none
    (r"forgepack\.target\.(tokenizer|token_ids)\b", ("TOK",)),
    (r"forgepack\.target\b", ("CTR",)),
    (r"forgepack\.package\.(constants|narrowed)\b", ("WGT", "NUM")),
    (r"forgepack\.package\b", ("PKG",)),
    (r"forgepack\.tool\b", ("PKG", "CTR")),
    (r"", ("CTR", "PKG")),
)
_BY_FILE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("drafter config", r"drafter/config\.json", ("CTR", "TAP", "VOC", "WGT", "SRC")),
    ("source record", r"drafter/DFLASH2_SOURCE\.json", ("SRC", "PKG")),
    ("asset metadata", r"drafter/.*/metadata\.json", ("PKG", "LIC")),
    ("manifest", r"target/coreai/manifest\.json", ("CTR", "TAP", "PATH")),
    ("target config", r"target/model/config\.json", ("CTR", "VOC", "TAP")),
    ("tokenizer", r"target/model/tokenizer\.json", ("TOK", "VOC")),
    ("tokenizer config", r"target/model/tokenizer_config\.json", ("TOK",)),
    ("lock", r"checkpoint/checkpoint\.lock\.json", ("SRC", "PATH")),
    ("checkpoint config", r"checkpoint/config\.json", ("SRC", "CTR", "TAP", "VOC", "WGT")),
    ("quantization report", r"quant/report\.json", ("SRC", "NUM")),
    ("target asset metadata", r"target/coreai/.*/metadata\.json", ("CTR", "PKG")),
)
_TENSORS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("quantized tensors", "quant/drafter_quant.safetensors", ("WGT", "NUM", "SRC", "FMT")),
    ("checkpoint tensors", "checkpoint/model.safetensors", ("WGT", "NUM", "SRC", "FMT")),
    ("selector", "drafter/selector.safetensors", ("WGT", "NUM", "PKG", "FMT", "VOC")),
)
_HEAD = ("export's head", ("HEAD", "FMT"))
# Kinds that make the file no file of its format, wherever they are.
_FORMAT = {
    *("duplicate", "duplicate with another value", "byte-order mark", "UTF-16", "data after it", "cut in half"),
    *("empty file", "a list around it", "a number that is none"),
}

# Of a number in another form, and of a field too many, the sidecar's schema and its digest in the asset tell.
_BY_TEXT = ("as a float", "as an integer", "extra")

# Mutations that change nothing that the contract binds: a pattern over the mutant's name, and the reason.
LEGAL: tuple[tuple[str, str], ...] = (
    (
        r"(sidecar|lock|(target )?asset metadata|tokenizer config): the whole: (written again|keys in another order)",
        "bound by its content: space and the order of keys mean nothing in JSON",
    ),
    (r"lock: files: (reordered|first two exchanged)", "the lock's digest is taken of its files sorted by path"),
    (
        r"plain files: checkpoint/README\.md: no file",
        "no lock lists it: a model card is no part of the pair",
    ),
    (r"program: .*: name", "constants are known by where they are used: saving merges equal ones under one name"),
    (r"(target )?asset metadata: creationDate: .*", "saving an asset stamps the date; it is bound without it"),
)

# Mutations that are legal but must be told: what an ending as a warning, never as a pass, is enough for.
TOLD: tuple[tuple[str, str], ...] = (
    (
        r"manifest: the whole: (written again|keys in another order)",
        "the manifest says the same in other bytes (CTR021): a library that saves it changes nothing",
    ),
    (
        (
            r"tokenizer: (the whole: (written again|keys in another order)|version: .*|unknown_key: extra|"
            r"added_tokens: (reordered|first two exchanged)|[\w.]+: (missing|null))"
        ),
        "the tokenizer means the same in other bytes (TOK002): absent and null are one, its version means nothing",
    ),
    (
        r"(tokenizer config: .*|plain files: target/model/tokenizer_config\.json: no file)",
        "template and settings are the serving side's: acceptance may fall, results stay right (TOK003, TOK004)",
    ),
    (
        r"(target|plain) files: target/model/(chat_template\.(jinja|json)|(tokenizer|generation)_config\.json): .*",
        "templates, settings and sampling are the serving side's (TOK003, TOK004, CTR081); token ids are refused",
    ),
    (
        r"plain files: target/LICENSE: no file",
        "a release root without its licence is no release yet: bundle demands it, verify warns (LIC006)",
    ),
)


def legal_reason(mutant: Mutant, *, warned: bool) -> str | None:
    """Return why a mutation need not be refused, None when it must be; some are legal only if they are warned of."""
    always = (*LEGAL, *LEGAL_FIELDS, *form_mutants.LEGAL)
    reasons = (*always, *TOLD, *TOLD_FIELDS) if warned else always
    return next((why for pattern, why in reasons if re.fullmatch(pattern, mutant.name)), None)


def all_mutants(stage: Stage) -> Iterator[Mutant]:
    """Yield every mutant of every file of the pair and of the package's program."""
    yield from _sidecar_mutants(stage)
    yield from _json_mutants(stage)
    yield from field_mutants(stage)
    yield from _program_mutants(stage)
    yield from form_mutants.form_mutants(stage)
    yield from _tensor_mutants(stage)
    yield from row_mutants(stage.root)
    yield from _plain_mutants(stage)
    yield from file_mutants(stage)
    yield from adopted_mutants(stage)


def _sidecar_mutants(stage: Stage) -> Iterator[Mutant]:
    file = f"drafter/{stage.profile.package}.json"
    for one in json_mutants((stage.root / file).read_bytes()):
        areas = next(areas for pattern, areas in _SIDECAR if re.match(pattern, one.place))
        if one.kind in _BY_TEXT:
            areas = (*areas, "CTR", "PKG")
        elif one.place.count(".") <= 1:
            areas = (*areas, "CTR")  # a part of the binding as a whole
        group = "sidecar" if not one.place.startswith("forgepack.package.constants") else "sidecar constants"
        yield _mutant(group, file, one, areas)


def _mutant(subject: str, file: str, one: JsonMutant, areas: tuple[str, ...]) -> Mutant:
    chosen = ("FMT",) if one.kind in _FORMAT else areas
    return Mutant(subject=subject, place=one.place, kind=one.kind, areas=chosen, file=file, make=one.make)


def _json_mutants(stage: Stage) -> Iterator[Mutant]:
    for file in _files(stage.root):
        match = next(((s, areas) for s, pattern, areas in _BY_FILE if re.fullmatch(pattern, file)), None)
        if match is not None:
            for one in json_mutants((stage.root / file).read_bytes()):
                yield _mutant(match[0], file, one, match[1])


def _files(root: Path) -> Iterable[str]:
    parts = ("checkpoint", "drafter", "quant", "target")
    found = (path for part in parts for path in (root / part).rglob("*") if path.is_file())
    return sorted(path.relative_to(root).as_posix() for path in found)


def _program_mutants(stage: Stage) -> Iterator[Mutant]:
    for one in program_mutants(stage.drafter):
        areas = ("WGT", "PKG", "NUM", "HEAD")
        yield Mutant(subject="program", place=one.place, kind=one.kind, areas=areas, program=one.program)


def _tensor_mutants(stage: Stage) -> Iterator[Mutant]:
    head = next(file for file in _files(stage.root) if file.endswith("lm_head.safetensors"))
    for subject, file, areas in (*_TENSORS, (_HEAD[0], head, _HEAD[1])):
        for one in tensor_mutants((stage.root / file).read_bytes()):
            yield Mutant(subject=subject, place=one.place, kind=one.kind, areas=areas, file=file, make=one.make)
    file, g = "target/model/embed_tokens_fp16.npy", stage.profile.geometry
    for one in array_mutants((stage.root / file).read_bytes(), g.mask_token, g.hidden):
        areas = ("WGT", "FMT")
        yield Mutant(subject="embedding", place=one.place, kind=one.kind, areas=areas, file=file, make=one.make)


def _plain_mutants(stage: Stage) -> Iterator[Mutant]:
    """Yield mutants of the files that are neither JSON nor tensors: texts, hashes, programs, layers; and no file."""
    plain = {
        r"drafter/(LICENSE|NOTICE)": ("LIC", "PKG"),
        r"checkpoint/(LICENSE|NOTICE)": ("LIC", "SRC"),
        r"drafter/.*/main\.(hash|mlirb)": ("PKG",),
        r"target/coreai/.*/main\.(hash|mlirb)": ("PKG", "CTR"),
        r"target/export/.*/layer.*": ("CTR",),
    }
    for file in _files(stage.root):
        areas = next((areas for pattern, areas in plain.items() if re.fullmatch(pattern, file)), None)
        data = (stage.root / file).read_bytes()
        if areas is not None and data:
            for kind, changed in _byte_changes(data).items():
                yield Mutant(
                    subject="plain files", place=file, kind=kind, areas=areas, file=file, make=partial(bytes, changed)
                )
        if data:
            anything = ("PKG", "SRC", "CTR", "LIC", "TOK", "FMT")
            yield Mutant(subject="plain files", place=file, kind="no file", areas=anything, file=file)


def _byte_changes(data: bytes) -> dict[str, bytes]:
    half = len(data) // 2
    return {
        "first bit": bytes([data[0] ^ 1]) + data[1:],
        "bit in the middle": data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :],
        "last bit": data[:-1] + bytes([data[-1] ^ 1]),
        "one byte less": data[:-1],
        "one byte more": data + b"\n",
        "empty": b"",
    }
