"""Discovery: which files a path leads to, and what is said about the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from explane.capture.discover import Discovery, discover
from explane.capture.filenames import FileRole, host_stem, role_of, run_time
from explane.errors import CaptureError, UsageError

OLD, NEW = "2025_02_05_16_08_24", "2025_11_30_03_00_00"


def touch(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def log_dir(root: Path, run: str = NEW, hosts: tuple[str, ...] = ("node",)) -> Path:
    """A log folder with one run of several hosts; returns the run folder."""
    folder = root / "plugins" / "profile" / run
    for host in hosts:
        touch(folder / f"{host}.xplane.pb")
        touch(folder / f"{host}.trace.json.gz")
    return folder


def reasons(found: Discovery) -> dict[str, str]:
    return {item.path.name: item.reason for item in found.ignored}


def message(*paths: str | Path) -> str:
    with pytest.raises(CaptureError) as caught:
        discover(paths)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_every_level_leads_to_the_same_run(tmp_path: Path) -> None:
    run = log_dir(tmp_path / "logs")
    levels = [run / "node.xplane.pb", run, run.parent, run.parent.parent, tmp_path / "logs"]
    for path in [*levels, tmp_path]:
        (host,) = discover([path]).hosts
        assert (host.host, host.run) == ("node", run)
        assert host.xplane == run / "node.xplane.pb"
        assert host.trace_json == run / "node.trace.json.gz"


def test_newest_run_by_name_is_chosen_and_others_are_listed(tmp_path: Path) -> None:
    old = log_dir(tmp_path, OLD)
    new = log_dir(tmp_path, NEW)
    odd = log_dir(tmp_path, "zzz")
    os.utime(new / "node.xplane.pb", (1, 1))  # file times must not matter
    found = discover([tmp_path])
    assert found.runs == (new,)
    assert found.other_runs == (old, odd)


def test_a_parent_of_two_log_folders_gives_one_choice_that_repeats(tmp_path: Path) -> None:
    first = log_dir(tmp_path / "a", NEW)
    second = log_dir(tmp_path / "b", NEW)
    found = discover([tmp_path])
    assert found.runs == (second,)
    assert found.other_runs == (first,)
    assert discover([tmp_path]) == found


def test_all_hosts_of_a_run_pair_by_name(tmp_path: Path) -> None:
    run = log_dir(tmp_path, hosts=("a", "b", "c"))
    (run / "b.trace.json.gz").unlink()
    touch(run / "c.trace.json")
    found = discover([run])
    assert [host.host for host in found.hosts] == ["a", "b", "c"]
    json_files = [host.trace_json for host in found.hosts]
    assert json_files == [run / "a.trace.json.gz", None, run / "c.trace.json.gz"]
    assert "c.trace.json.gz" in reasons(found)["c.trace.json"]


def test_host_names_with_dots_and_colons_pair(tmp_path: Path) -> None:
    run = log_dir(tmp_path, hosts=("34.83.195.179:6003", "vm.internal"))
    found = discover([run])
    assert [host.host for host in found.hosts] == ["34.83.195.179:6003", "vm.internal"]
    assert all(host.xplane and host.trace_json for host in found.hosts)


def test_derived_and_stale_files_are_left_out_with_reasons(tmp_path: Path) -> None:
    run = log_dir(tmp_path)
    derived = [
        "perfetto_trace.json.gz",
        "small.trace.json.gz",
        "jit_f(15).hlo_proto.pb",
        "ALL_HOSTS.op_stats.pb",
        "node.op_stats_v2.pb",
        "node.SSTABLE",
        "cache_version.txt",
        "other.xplane.pb.tmp",
        "notes.txt",
    ]
    for name in derived:
        touch(run / name)
    touch(run / "explane-out" / ".explane")
    touch(run / "explane-out" / "node.trace.json.gz")
    found = discover([run])
    assert len(found.hosts) == 1
    assert set(reasons(found)) == set(derived)
    assert "name the file" in reasons(found)["small.trace.json.gz"]
    assert "XProf" in reasons(found)["node.SSTABLE"]


def test_our_own_outputs_are_not_searched(tmp_path: Path) -> None:
    run = log_dir(tmp_path)
    touch(tmp_path / "report" / ".explane")
    touch(tmp_path / "report" / "9999_01_01_00_00_00" / "node.xplane.pb")
    found = discover([tmp_path])
    assert found.runs == (run,)
    assert reasons(found) == {"report": "an output of explane"}
    assert "an output of explane" in message(tmp_path / "report")


def test_json_files_alone_are_hosts(tmp_path: Path) -> None:
    touch(tmp_path / "a.trace.json.gz")
    touch(tmp_path / "b.trace.json")
    touch(tmp_path / "perfetto_trace.json.gz")
    found = discover([tmp_path])
    assert [(host.host, host.xplane) for host in found.hosts] == [("a", None), ("b", None)]
    assert list(reasons(found)) == ["perfetto_trace.json.gz"]


def test_a_named_json_is_read_alone(tmp_path: Path) -> None:
    run = log_dir(tmp_path)
    found = discover([run / "node.trace.json.gz"])
    assert [(h.xplane, h.trace_json) for h in found.hosts] == [(None, run / "node.trace.json.gz")]
    assert "read alone" in reasons(found)["node.xplane.pb"]
    both = discover([run / "node.trace.json.gz", run / "node.xplane.pb"])
    assert len(both.hosts) == 1
    assert both.hosts[0].xplane and both.hosts[0].trace_json and not both.ignored


@pytest.mark.parametrize(
    ("content", "is_json"), [(b"\x1f\x8b\x08", True), (b"  [{", True), (b"\x0a\x05", False)]
)
def test_a_named_file_of_any_name_is_told_by_its_content(
    tmp_path: Path, content: bytes, is_json: bool
) -> None:
    path = touch(tmp_path / "capture.bin", content)
    (host,) = discover([path]).hosts
    assert (host.trace_json == path, host.xplane == path) == (is_json, not is_json)


def test_several_paths_are_joined_and_labels_differ(tmp_path: Path) -> None:
    first = log_dir(tmp_path / "a", OLD)
    second = log_dir(tmp_path / "b", NEW)
    found = discover([first, second, first / "node.xplane.pb"])
    assert [host.host for host in found.hosts] == [f"node@{OLD}", f"node@{NEW}"]
    assert found.runs == (first, second)
    third = log_dir(tmp_path / "c", NEW)
    labels = [host.host for host in discover([second, third]).hosts]
    assert len(set(labels)) == 2


ODD_NAMES = ["C:\\logs\\x", "a:b", "with space", "a#b", "a%20b", "[x]", "-o", "Größe-日本", "ab:"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_local_paths_stay_local(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = log_dir(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    (host,) = discover([name]).hosts
    assert host.xplane is not None
    assert host.xplane.resolve() == run / "node.xplane.pb"


def test_a_file_name_that_is_not_utf8_is_found(tmp_path: Path) -> None:
    touch(Path(os.fsdecode(os.fsencode(tmp_path) + b"/n\xff.xplane.pb")))
    (host,) = discover([tmp_path]).hosts
    assert host.host == "n?"


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("gs://bucket/logs", "gcloud storage cp -r gs://bucket/logs ."),
        ("s3://bucket/logs", "aws s3 cp"),
        ("https://example.org/x.xplane.pb", "curl"),
        ("abfs://box/x", "copy it here first"),
    ],
)
def test_remote_paths_say_copy_it_here_first(path: str, command: str) -> None:
    text = message(path)
    assert "copy it here first" in text
    assert command in text


@pytest.mark.parametrize("path", ["C:\\no\\such", "no/such", "a\0b", "c:/x"])
def test_missing_local_paths_say_so(path: str) -> None:
    assert "no such file" in message(path)


def test_links_in_a_loop_end(tmp_path: Path) -> None:
    run = log_dir(tmp_path / "logs")
    (tmp_path / "logs" / "again").symlink_to(tmp_path / "logs")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (run / "dead.xplane.pb").symlink_to(run / "gone")
    found = discover([tmp_path])
    assert [host.host for host in found.hosts] == ["node"]
    assert reasons(found)["dead.xplane.pb"] == "neither file nor folder"
    assert "leads nowhere" in message(tmp_path / "self")


def test_a_link_to_the_newest_run_is_that_run(tmp_path: Path) -> None:
    run = log_dir(tmp_path)
    (run.parent / "latest").symlink_to(run)
    found = discover([tmp_path])
    assert found.runs == (run,)
    assert found.other_runs == ()
    assert len(discover([run.parent / "latest", run]).hosts) == 1


def test_an_empty_run_says_that_stop_trace_may_have_died(tmp_path: Path) -> None:
    empty = tmp_path / "plugins" / "profile" / NEW
    empty.mkdir(parents=True)
    assert "no capture in this folder" in message(empty)
    assert "stop_trace" in message(tmp_path)
    touch(empty / "node.xplane.pb.tmp")
    assert "node.xplane.pb.tmp" in message(tmp_path)
    log_dir(tmp_path, OLD)
    found = discover([tmp_path])
    assert found.runs[0].name == OLD
    assert "stop_trace" in reasons(found)[NEW]


def test_a_folder_of_other_things_says_what_was_looked_for(tmp_path: Path) -> None:
    touch(tmp_path / "src" / "train.py")
    text = message(tmp_path)
    assert "*.xplane.pb" in text
    assert "start_trace" in text
    touch(tmp_path / "perfetto_trace.json.gz")
    assert "perfetto_trace.json.gz" in message(tmp_path)


def test_sidecars_and_packed_files_are_refused_by_name(tmp_path: Path) -> None:
    assert "sidecar" in message(touch(tmp_path / "jit_f(1).hlo_proto.pb"))
    assert "gunzip" in message(touch(tmp_path / "node.xplane.pb.gz"))


def test_special_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "neither a file nor a folder" in message(tmp_path / "pipe")


@pytest.mark.parametrize("paths", [[], [""]])
def test_no_path_is_wrong_usage(paths: list[str]) -> None:
    with pytest.raises(UsageError):
        discover(paths)


def test_roles_and_stems() -> None:
    assert role_of("a.xplane.pb") is FileRole.XPLANE
    assert role_of("perfetto_trace.json.gz") is FileRole.DERIVED
    assert role_of("a.xplane.pb.tmp1234") is FileRole.UNFINISHED
    assert role_of("model.pb") is FileRole.OTHER
    assert host_stem("a.b.trace.json") == "a.b"
    assert host_stem("xplane.pb") == ""
    assert run_time("2025_02_05_16_08_24") == (2025, 2, 5, 16, 8, 24)
    assert run_time("2020-09-01T10:11:12") == (2020, 9, 1, 10, 11, 12)
    assert run_time("run7") == ()
