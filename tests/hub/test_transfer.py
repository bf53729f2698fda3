"""The ranged transfer: cuts, resumes, retries, wrong lengths and wrong bytes, each against the real client."""

from __future__ import annotations

import gzip
import hashlib
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forgepack.errors import HubError, IdentityError
from forgepack.hub import FetchRequest, HubSettings, RetryPolicy, fetch_checkpoint
from forgepack.miniature.server import Reply
from tests.hub.bench import COMMIT, FILES, PROFILE, REPO, WEIGHTS, Bench, expected_tree, tree_of
from tests.hub.loopback import LoopbackHub

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%b\nsize 300000\n" % (b"ab" * 32)
HTML = b"<!DOCTYPE html><html><body>Please log in</body></html>"


def failed(bench: Bench, kind: type[HubError] | type[IdentityError] = HubError, **options: Any) -> Any:
    """Run a fetch that must fail; the folder must not look complete, and no final file may be there."""
    with pytest.raises(kind) as caught:
        bench.fetch(**options)
    assert not bench.complete()
    assert [] == [p.name for p in bench.out.glob("*") if not p.name.startswith(".")]
    return caught.value


def test_a_cut_transfer_goes_on_with_a_range_in_the_same_run(bench: Bench) -> None:
    """Three cuts, each resumed exactly where the bytes ended."""
    for cut in (1000, 70_000, 5):
        bench.hub.fault("GET", "model.safetensors", cut=cut)
    report = bench.fetch()
    assert ["", "bytes=1000-", "bytes=71000-", "bytes=71005-"] == bench.ranges()
    assert [1.0, 2.0, 4.0] == bench.sleeps
    assert len(WEIGHTS) == next(f.received for f in report.files if f.path == "model.safetensors")
    assert expected_tree() == tree_of(bench.out)


def test_the_next_run_goes_on_where_the_last_one_gave_up(bench: Bench) -> None:
    """Only the missing bytes are asked for, and files that had landed are not asked for at all."""
    bench.hub.fault("GET", "model.safetensors", cut=100_000)
    bench.hub.fault("GET", "model.safetensors", drop=True, times=99)
    assert "hub-unreachable" == failed(bench).code
    assert [1.0, 2.0, 4.0, 8.0, 16.0] == bench.sleeps
    assert 100_000 in bench.parts()
    again = Bench(bench.hub, bench.out)
    for fault in list(bench.hub._faults):
        fault.times = 0
    bench.hub.log.clear()
    report = again.fetch()
    assert ["bytes=100000-"] == again.ranges()
    assert 1 == len([p for p in again.asked() if "/resolve/" in p])
    assert {"resumed", "downloaded"} >= {f.action for f in report.files}
    assert len(WEIGHTS) - 100_000 == sum(f.received for f in report.files)
    assert expected_tree() == tree_of(again.out)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 60_000), max_size=5))
def test_any_pattern_of_cuts_gives_the_same_bytes(cuts: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Wherever the line breaks, the folder ends up the same."""
    with LoopbackHub.serve({REPO: {COMMIT: FILES}}) as hub:
        bench = Bench(hub, tmp_path_factory.mktemp("cuts") / "out")
        for cut in cuts:
            hub.fault("GET", "model.safetensors", cut=cut)
        bench.fetch()
    assert expected_tree() == tree_of(bench.out)


def test_attempts_are_counted_anew_while_the_file_moves(bench: Bench) -> None:
    """A long download over a bad line takes as many cuts as it needs."""
    for _ in range(20):
        bench.hub.fault("GET", "model.safetensors", cut=10_000)
    bench.fetch(policy=RetryPolicy(attempts=3, fresh_after=10_000))
    assert [1.0] * 20 == bench.sleeps
    assert expected_tree() == tree_of(bench.out)


def test_a_server_that_ignores_the_range_is_taken_from_the_start(bench: Bench) -> None:
    """A 200 in answer to a Range replaces the part; no byte is spliced."""

    def whole(_: Reply) -> Reply:
        return Reply(headers={}, body=WEIGHTS)

    bench.hub.fault("GET", "model.safetensors", cut=100_000)
    bench.hub.fault("GET", "model.safetensors", change=whole)
    bench.fetch()
    assert ["", "bytes=100000-"] == bench.ranges()
    assert expected_tree() == tree_of(bench.out)


@pytest.mark.parametrize(
    "content_range", ["bytes 99999-299999/300000", "bytes 100000-299999/300001", "bytes */300000", "junk", ""]
)
def test_a_wrong_content_range_is_not_believed(bench: Bench, content_range: str) -> None:
    """The part is dropped and the file asked for from its start, without a Range."""
    bench.hub.fault("GET", "model.safetensors", cut=100_000)
    bench.hub.fault("GET", "model.safetensors", headers={"Content-Range": content_range})
    bench.fetch()
    assert ["", "bytes=100000-", ""] == bench.ranges()
    assert expected_tree() == tree_of(bench.out)


def test_a_refused_range_starts_the_file_again(bench: Bench) -> None:
    """416 means that our bytes are not the server's."""
    bench.hub.fault("GET", "model.safetensors", cut=100_000)
    bench.hub.fault("GET", "model.safetensors", status=416)
    bench.fetch()
    assert ["", "bytes=100000-", ""] == bench.ranges()
    assert expected_tree() == tree_of(bench.out)


def test_416_for_ever_is_an_error(bench: Bench) -> None:
    """It has its own code."""
    bench.hub.fault("GET", "model.safetensors", status=416, times=99)
    assert "hub-range" == failed(bench).code


def test_a_part_of_other_bytes_is_taken_again_in_one_piece(bench: Bench) -> None:
    """A part that was damaged on the disk costs one more download, not an error."""
    bench.hub.fault("GET", "model.safetensors", cut=100_000)
    bench.hub.fault("GET", "model.safetensors", status=403)
    failed(bench)
    part = next(p for p in bench.out.rglob("*.part") if p.stat().st_size == 100_000)
    part.write_bytes(bytes(100_000))
    bench.hub.log.clear()
    bench.fetch()
    assert ["bytes=100000-", ""] == bench.ranges()
    assert expected_tree() == tree_of(bench.out)


@pytest.mark.parametrize("size", [len(WEIGHTS), len(WEIGHTS) + 1])
def test_a_part_as_long_as_the_file_is_judged_by_its_hash(bench: Bench, size: int) -> None:
    """A full part of wrong bytes, or one that is too long, is dropped."""
    bench.hub.fault("GET", "model.safetensors", cut=100_000)
    bench.hub.fault("GET", "model.safetensors", status=403)
    failed(bench)
    part = next(p for p in bench.out.rglob("*.part") if p.stat().st_size == 100_000)
    part.write_bytes(bytes(size))
    bench.fetch()
    assert expected_tree() == tree_of(bench.out)


def test_a_complete_part_is_not_asked_for_again(bench: Bench) -> None:
    """A run that was killed between landing and publishing costs hashing alone."""
    bench.hub.fault("GET", "model.safetensors", cut=100_000)
    bench.hub.fault("GET", "model.safetensors", status=403)
    failed(bench)
    part = next(p for p in bench.out.rglob("*.part") if p.stat().st_size == 100_000)
    part.write_bytes(WEIGHTS)
    bench.hub.log.clear()
    report = bench.fetch()
    assert [] == bench.ranges()
    assert 0 == sum(f.received for f in report.files)
    assert expected_tree() == tree_of(bench.out)


def test_wrong_bytes_of_the_right_length_are_discarded_and_both_digests_named(bench: Bench) -> None:
    """The client alone would have taken them."""
    wrong = bytearray(WEIGHTS)
    wrong[150_000] ^= 1
    bench.hub.fault("GET", "model.safetensors", body=bytes(wrong), times=9)
    error = failed(bench, IdentityError)
    assert ("wrong-bytes", 4) == (error.code, error.exit_code)
    assert f"sha256 {hashlib.sha256(WEIGHTS).hexdigest()}" == error.expected
    assert f"sha256 {hashlib.sha256(wrong).hexdigest()}" == error.found
    assert len(WEIGHTS) not in bench.parts()
    assert [""] == bench.ranges()


def test_wrong_bytes_of_a_file_outside_lfs_are_judged_by_the_git_blob_id(bench: Bench) -> None:
    """Small files have no sha256 in the hub's record."""
    bench.hub.fault("GET", "config.json", body=b'{"block_size": 9}\n', times=9)
    error = failed(bench, IdentityError)
    assert ("wrong-bytes", "config.json") == (error.code, error.where)
    assert str(error.expected).startswith("git blob ")
    assert error.expected != error.found


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (POINTER, "hub-lfs-pointer"),
        (HTML, "hub-html"),
        (WEIGHTS[:-1], "hub-short"),
        (b"", "hub-short"),
        (WEIGHTS + b"x", "hub-long"),
        (HTML.ljust(len(WEIGHTS)), "hub-html"),
        (HTML + bytes(len(WEIGHTS)), "hub-html"),
    ],
)
@pytest.mark.parametrize("announced", [True, False])
def test_another_thing_in_the_files_place_is_named(bench: Bench, body: bytes, code: str, announced: bool) -> None:
    """A pointer, a page, a short and a long file, with and without a Content-Length."""

    def swap(_: Reply) -> Reply:
        return Reply(headers={} if announced else {"Content-Length": ""}, body=body)

    bench.hub.fault("GET", "model.safetensors", change=swap, times=99)
    error = failed(bench)
    short_by_the_end = not announced and code == "hub-short"
    assert ("hub-cut" if short_by_the_end else code) == error.code
    assert 6 == error.exit_code
    assert [] == [size for size in bench.parts() if 0 < size == len(body)] or short_by_the_end


def test_a_page_in_place_of_a_small_file_is_named(bench: Bench) -> None:
    """Also where the page is longer than the file and comes in one chunk."""
    bench.hub.fault("GET", "LICENSE", body=HTML, times=9)
    assert "hub-html" == failed(bench).code


@pytest.mark.parametrize(
    ("headers", "code", "kind"),
    [
        ({"X-Repo-Commit": ""}, "hub-bad-answer", HubError),
        ({"X-Repo-Commit": "0" * 40}, "wrong-commit", IdentityError),
        ({"X-Linked-Size": "131"}, "hub-contradiction", HubError),
        ({"X-Linked-Etag": '"' + "ab" * 32 + '"'}, "hub-contradiction", HubError),
    ],
)
def test_metadata_that_contradicts_the_listing_is_refused_before_the_bytes(
    bench: Bench, headers: dict[str, str], code: str, kind: type[Any]
) -> None:
    """Another commit, no commit, another size, another digest."""
    bench.hub.fault("HEAD", "model.safetensors", headers=headers, times=9)
    assert code == failed(bench, kind).code
    assert [] == bench.ranges()


def test_an_etag_of_another_form_is_no_contradiction(bench: Bench) -> None:
    """Mirrors make ETags of their own; the bytes are judged by their hash."""
    bench.hub.fault("HEAD", "", headers={"ETag": 'W/"abc-123"', "X-Linked-Etag": '"x"'}, times=99)
    bench.fetch()
    assert expected_tree() == tree_of(bench.out)


def test_a_compressed_answer_is_hashed_as_the_file(bench: Bench) -> None:
    """A proxy that compresses although told not to does no harm when the whole file is asked for."""

    def packed(reply: Reply) -> Reply:
        return replace(reply, headers={**reply.headers, "Content-Encoding": "gzip"}, body=gzip.compress(reply.body))

    bench.hub.fault("GET", "config.json", change=packed)
    bench.fetch()
    assert expected_tree() == tree_of(bench.out)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 429])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_server_error_that_passes_is_waited_for(bench: Bench, status: int, method: str) -> None:
    """Both the metadata and the bytes are asked again, with the tool's own waits."""
    bench.hub.fault(method, "/resolve/.*model.safetensors", status=status, times=2)
    bench.fetch()
    assert [1.0, 2.0] == bench.sleeps
    assert expected_tree() == tree_of(bench.out)


@pytest.mark.parametrize(
    ("status", "code"),
    [(500, "hub-unavailable"), (503, "hub-unavailable"), (429, "hub-rate-limit"), (408, "hub-timeout")],
)
def test_a_server_error_for_ever_is_told_after_six_attempts(bench: Bench, status: int, code: str) -> None:
    """What has landed before stays for the next run."""
    bench.hub.fault("GET", "model.safetensors", status=status, times=99)
    assert code == failed(bench).code
    assert [1.0, 2.0, 4.0, 8.0, 16.0] == bench.sleeps
    assert [9, 18, 18, 19] == bench.parts()


@pytest.mark.parametrize(("asked", "waits"), [("7", 7.0), ("100000", 300.0), ("soon", 1.0), ("-1", 1.0), ("0", 1.0)])
def test_the_servers_retry_after_is_honoured_within_bounds(bench: Bench, asked: str, waits: float) -> None:
    """Five minutes at most, and never less than the tool's own wait."""
    bench.hub.fault("GET", "model.safetensors", status=429, headers={"Retry-After": asked})
    bench.fetch()
    assert [waits] == bench.sleeps


def test_a_silent_server_times_out(bench: Bench) -> None:
    """The wait for an answer is bounded, and the file is asked for again."""
    release = threading.Event()
    bench.hub.fault("HEAD", "model.safetensors", before=lambda: release.wait(10))
    request = FetchRequest(profile=PROFILE, out=bench.out)
    hub_settings = HubSettings(endpoint=bench.hub.url, token=False, timeout=0.2)
    fetch_checkpoint(request, settings=hub_settings, effects=bench.effects)
    release.set()
    assert [1.0] == bench.sleeps
    assert "does not answer in time" in next(p.note for p in bench.seen if p.phase == "retry")


def test_a_transfer_that_trickles_counts_as_cut(bench: Bench) -> None:
    """Under 60 KiB in a minute is no transfer; the clock is injected."""
    bench.tick = 61.0
    error = failed(bench, policy=RetryPolicy(attempts=2, stall_bytes=1 << 30))
    assert ("hub-timeout", "the transfer stalls") == (error.code, error.what)


def test_progress_counts_bytes_of_the_total_with_a_rate(bench: Bench) -> None:
    """Counts never fall, end at the total, and the rate is bytes by the injected clock."""
    bench.tick = 0.001
    bench.fetch()
    seen = [p for p in bench.seen if p.phase == "download" and p.path == "model.safetensors"]
    assert sorted(p.done for p in seen) == [p.done for p in seen]
    assert (len(WEIGHTS), len(WEIGHTS)) == (seen[-1].done, seen[-1].total)
    assert all(p.rate > 0 for p in seen)
    assert ["list", "publish"] == [p.phase for p in bench.seen if p.path == ""]


@pytest.mark.parametrize("cut", [0, 1, 299_999])
def test_a_cut_at_the_edges_is_resumed(bench: Bench, cut: int) -> None:
    """No byte, the first byte, all but the last byte."""
    bench.hub.fault("GET", "model.safetensors", cut=cut)
    bench.fetch()
    assert ["", f"bytes={cut}-" if cut else ""] == bench.ranges()
    assert expected_tree() == tree_of(bench.out)


def test_each_attempt_asks_anew_where_the_bytes_are(tmp_path: Any) -> None:
    """A signed storage address that has expired (403 from that host) is replaced by a fresh one."""
    with LoopbackHub.serve({REPO: {COMMIT: FILES}}, storage=True) as hub:
        bench = Bench(hub, tmp_path / "out")
        hub.fault("GET", "X-Signature", status=403)
        bench.fetch()
    assert [1.0] == bench.sleeps
    assert 2 == len([p for p in bench.asked("HEAD") if p.endswith("model.safetensors")])
    assert expected_tree() == tree_of(bench.out)


def test_a_storage_host_that_forbids_for_ever_is_told_without_its_address(tmp_path: Any) -> None:
    """The signed address is a secret."""
    with LoopbackHub.serve({REPO: {COMMIT: FILES}}, storage=True) as hub:
        bench = Bench(hub, tmp_path / "out")
        hub.fault("GET", "X-Signature", status=403, times=99)
        error = failed(bench)
    assert "hub-forbidden" == error.code
    assert "secret" not in str(error)
