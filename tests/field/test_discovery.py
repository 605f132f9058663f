"""Which files are taken: several hosts and processes, odd paths, leftovers, empty runs."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from explane import app
from explane.capture.discover import discover
from explane.errors import CaptureError, UsageError
from explane.options import Options
from tests.builders import Space
from tests.field.made import Job, analysed, doubts, refusal, row, rows, steps_of

RUN = "plugins/profile/2026_03_04_05_06_07"


@pytest.fixture(scope="module")
def good() -> Space:
    return steps_of(Job()).space()


@pytest.mark.parametrize("n_json", [0, 2, 4])
def test_hosts_of_one_run_are_analysed_each_and_never_mixed(tmp_path: Path, n_json: int) -> None:
    for i in range(4):
        space = steps_of(Job(), n_steps=4 + i).space()
        space.hostnames = [f"node{i}"]
        space.write(tmp_path / "run", host=f"node{i}.cluster", with_json=i < n_json)
    found = analysed(tmp_path / "run", tmp_path)
    hosts = [host.host for host in found.hosts]
    assert len(set(hosts)) == 4
    counts = [len(rows(found, "kernels", host=host)) for host in hosts]
    assert counts == [2 * (4 + i) for i in range(4)]
    made = [r for r in rows(found, "checks") if r["check"].startswith("device events: JSON")]
    assert [r["holds"] for r in made] == ["yes"] * n_json + ["not available"] * (4 - n_json)


def test_processes_of_one_machine_with_the_same_ordinal_stay_two(tmp_path: Path) -> None:
    for i, name in enumerate(("first_fusion", "second_fusion")):
        job = steps_of(Job(), (name,), n_steps=4 + i)
        Space(job.space().planes, hostnames=["node"]).write(tmp_path / "run", host=f"node_{i}")
    found = analysed(tmp_path / "run", tmp_path)
    assert len(rows(found, "streams")) == 2
    assert {r["n_kernels"] for r in rows(found, "streams")} == {4, 5}
    for one in rows(found, "streams"):
        assert one["compute_ps"] <= one["span_ps"]
    assert "GPU" in doubts(found)
    assert "node" in doubts(found)


def test_every_level_of_a_log_dir_leads_to_the_same_run(good: Space, tmp_path: Path) -> None:
    file = good.write(tmp_path / "experiments/logs" / RUN)
    levels = [file, file.parent, file.parents[1], file.parents[3], file.parents[4]]
    found = [discover([path]).hosts for path in levels]
    assert {hosts[0].xplane for hosts in found} == {file}


def test_a_parent_of_two_log_dirs_takes_the_newest_and_lists_the_other(
    good: Space, tmp_path: Path
) -> None:
    newer = good.write(tmp_path / "b" / RUN)
    older = good.write(tmp_path / "a/plugins/profile/2025_12_31_23_59_59")
    found = discover([tmp_path])
    assert found.hosts[0].xplane == newer
    assert found.other_runs == (older.parent,)
    investigation = app.investigate([tmp_path])
    assert any(not s.used and "older run" in s.note for s in investigation.sources)


NAMES = ("C:\\logs", "a:b", "with space", "50%20", "a#b", "[x]", "-q", "ünïcode", "a'b\"c", "a\tb")


@pytest.mark.parametrize("name", NAMES)
def test_odd_local_names_stay_local(
    good: Space, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good.write(tmp_path / name)
    (tmp_path / name / "loop").symlink_to(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert len(rows(app.investigate([name]), "kernels")) == 10


@pytest.mark.parametrize("path", ["gs://bucket/x", "s3://b/y", "hdfs://n/z", "https://h/x"])
def test_remote_paths_say_copy_it_here(path: str) -> None:
    with pytest.raises((UsageError, CaptureError), match=r"(?i)copy"):
        discover([path])


@pytest.mark.parametrize("left", ["", "node.xplane.pb.tmp", "node.xplane.pb.part"])
def test_a_run_without_a_capture_says_that_stop_trace_may_have_died(
    tmp_path: Path, left: str
) -> None:
    (tmp_path / RUN).mkdir(parents=True)
    if left:
        (tmp_path / RUN / left).write_bytes(b"\x0a")
    text = refusal(tmp_path, tmp_path)
    assert "stop_trace" in text
    assert left in text


def test_raw_files_are_chosen_among_derived_ones_and_both_are_listed(tmp_path: Path) -> None:
    run = tmp_path / RUN
    space = steps_of(Job()).space()
    space.write(run, with_json=True)
    (run / "perfetto_trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents":[{}]}'))
    (run / "aaa_derived.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents":[{}]}'))
    (run / "node.op_stats.pb").write_bytes(b"\x0a\x01")
    (run / "ALL_HOSTS.op_stats.pb").write_bytes(b"\x0a\x01")
    (run / "cache_version.txt").write_text("1", encoding="utf-8")
    (run / "jit_step(3).hlo_proto.pb").write_bytes(b"stale")
    found = analysed(run, tmp_path)
    used = {s.path for s in found.sources if s.used}
    assert used == {"node.xplane.pb", "node.trace.json.gz"}
    reasons = {s.path: s.note for s in found.sources if not s.used}
    assert {"perfetto_trace.json.gz", "aaa_derived.trace.json.gz"} <= reasons.keys()
    assert all(reasons.values())
    assert row(found, "how")["match"] == "exact"


def test_a_stale_sidecar_is_never_preferred_over_the_stored_program(tmp_path: Path) -> None:
    run = tmp_path / RUN
    steps_of(Job()).space().write(run)
    (run / "jit_step.hlo_proto.pb").write_bytes(b"\xff" * 50)
    found = analysed(run, tmp_path)
    assert {r["source_line"] for r in rows(found, "kernels")} == {10, 11}


def test_dumped_programs_in_the_run_are_no_source_of_lines(tmp_path: Path) -> None:
    """A dump of one function under two module numbers, one of them before optimisation."""
    run = tmp_path / RUN
    steps_of(Job()).space().write(run)
    names = (
        "module_0021.jit_step.before_optimizations.txt",
        "module_0023.jit_step.sm_9.0_gpu_after_optimizations.txt",
        "module_0023.jit_step.hlo.pb",
    )
    for name in names:
        (run / name).write_text("HloModule jit_step, metadata={source_line=999}", encoding="utf-8")
    found = analysed(run, tmp_path)
    assert {r["source_line"] for r in rows(found, "kernels")} == {10, 11}
    assert not {s.path for s in found.sources if s.used} & set(names)


def test_names_in_capitals_are_the_same_files(good: Space, tmp_path: Path) -> None:
    """As a copy to a file system of old leaves them."""
    path = good.write(tmp_path / RUN)
    path.rename(path.with_name("NODE.XPLANE.PB"))
    (path.parent / "NODE.HLO_PROTO.PB").write_bytes(b"stale")
    assert [host.host for host in discover([tmp_path]).hosts] == ["NODE"]


def test_our_own_output_is_no_capture_and_is_not_searched(good: Space, tmp_path: Path) -> None:
    run = good.write(tmp_path / RUN).parent
    out = tmp_path / "explane-report"
    app.attribute([str(run)], out, Options())
    assert discover([tmp_path]).hosts[0].run == run
    assert "explane" in refusal(out, tmp_path)


def test_a_foreign_folder_is_never_replaced(good: Space, tmp_path: Path) -> None:
    run = good.write(tmp_path / RUN).parent
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.tex").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError):
        app.attribute([str(run)], out, Options(force=True))
    assert [p.name for p in out.iterdir()] == ["thesis.tex"]


def test_an_older_capture_of_the_same_host_in_the_run_is_not_mixed_in(tmp_path: Path) -> None:
    """Two processes' files or a leftover: kept apart, told, never summed."""
    run = tmp_path / RUN
    steps_of(Job(), ("new_fusion",)).space().write(run, host="node")
    steps_of(Job(), ("old_fusion",)).space().write(run, host="node.old")
    found = analysed(run, tmp_path)
    assert len(rows(found, "streams")) == 2
    assert max(r["compute_ps"] for r in rows(found, "streams")) == 5 * 30 * 10**6


def test_one_broken_host_of_many_leaves_a_partial_result(good: Space, tmp_path: Path) -> None:
    good.write(tmp_path / "run", host="a")
    (tmp_path / "run/b.xplane.pb").write_bytes(b"\xff\xff\xff")
    found = analysed(tmp_path / "run", tmp_path)
    assert found.partial
    assert [s.path for s in found.sources if not s.used] == ["b.xplane.pb"]
    assert len(rows(found, "kernels")) == 10


def test_a_copied_file_is_told_from_another_process(good: Space, tmp_path: Path) -> None:
    path = good.write(tmp_path / "run", host="node")
    shutil.copy(path, path.with_name("node-copy.xplane.pb"))
    found = analysed(tmp_path / "run", tmp_path)
    assert len(rows(found, "kernels")) == 10
    left_out = {s.path: s.note for s in found.sources if not s.used}
    assert left_out.keys() == {"node-copy.xplane.pb"}
    assert "a copy of it" in left_out["node-copy.xplane.pb"]
