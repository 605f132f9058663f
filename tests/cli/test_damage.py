"""A short run of damaged captures; `make fuzz` is the long one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from explane.cli.main import main
from tests.cli.captures import small_capture
from tools.mutants import mutant

XPLANE = small_capture().to_bytes()
JSON = gzip.compress(json.dumps(small_capture().to_json()).encode(), mtime=0)
ORIGINALS = {"node.xplane.pb": XPLANE, "node.trace.json.gz": JSON}
N_BATCHES, N_EACH = 6, 15


@pytest.mark.parametrize("batch", range(N_BATCHES))
@pytest.mark.parametrize("name", ORIGINALS)
@pytest.mark.parametrize("command", ["verdict", "attribute"])
def test_damage_ends_in_a_result_or_one_line(
    command: str, name: str, batch: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(batch * N_EACH, (batch + 1) * N_EACH):
        path, out = tmp_path / str(seed) / "in" / name, tmp_path / str(seed) / "out"
        path.parent.mkdir(parents=True)
        path.write_bytes(mutant(ORIGINALS[name], seed))
        code = main([command, str(path), "-o", str(out), "--quiet"])
        told = capsys.readouterr().err
        assert "internal error" not in told, f"seed {seed}: {told}"
        assert code in (0, 1, 3), f"seed {seed}: {told}"
        assert out.exists() == (code != 1), f"seed {seed}"
        assert len(told.splitlines()) <= 1, f"seed {seed}: {told}"
