"""Writes Vega for the report's page, with the licences of what is in it.

    python tools/bundle_vega.py [NODE_MODULES]

The script is what the installed vl-convert makes; making it takes seconds, so it is made here and
not in every report. `make lock` runs this; a test tells when the file is not that of the locked
version. The licences come from NODE_MODULES, a folder made by

    npm install --ignore-scripts --omit=dev vega@V vega-lite@V vega-embed@V

with the versions that this prints; without it they stay as they are.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import vl_convert

from explane.report.charts.render import bundled_vega, converter_version

STATIC = Path(__file__).resolve().parents[1] / "src/explane/report/static"
COMMAND_LINE_ONLY = {
    "ansi-regex", "ansi-styles", "cliui", "commander", "emoji-regex", "escalade",
    "get-caller-file", "get-east-asian-width", "iconv-lite", "rw", "safer-buffer", "string-width",
    "strip-ansi", "vega-typings", "wrap-ansi", "y18n", "yargs", "yargs-parser",
}  # fmt: skip
"""Packages that npm installs for commands and types; none of their code runs in a page."""


def main() -> int:
    """Writes the script and, given the packages, their licences."""
    script = bundled_vega().encode()
    (STATIC / "vega.js.gz").write_bytes(gzip.compress(script, 9, mtime=0))
    made_by = json.dumps(converter_version(), indent=1, sort_keys=True) + "\n"
    (STATIC / "vega.json").write_text(made_by, encoding="utf-8")
    embed = vl_convert.get_vega_embed_version()
    print(f"vega {vl_convert.get_vega_version()}, vega-embed {embed}: {len(script):,} bytes")
    for folder in sys.argv[1:]:
        text = licences(Path(folder))
        (STATIC / "vega-licences.txt").write_text(text, encoding="utf-8")
    return 0


def licences(packages: Path) -> str:
    """Each licence once, below the names of the packages that it covers."""
    names: dict[str, list[str]] = {}
    for found in sorted([*packages.glob("*/package.json"), *packages.glob("@*/*/package.json")]):
        meta = json.loads(found.read_text(encoding="utf-8"))
        if meta["name"] in COMMAND_LINE_ONLY or meta["name"].startswith("@types/"):
            continue
        files = sorted(p for p in found.parent.iterdir() if p.name.lower().startswith("licen"))
        text = files[0].read_text(encoding="utf-8") if files else ""
        label = f"{meta['name']} ({meta['license']})"
        names.setdefault("\n".join(line.rstrip() for line in text.splitlines()), []).append(label)
    parts = ["Vega and what it is made of, in every report.html:\n"]
    parts += [
        "\n".join(packages) + "\n\n" + text.strip() + "\n" for text, packages in names.items()
    ]
    return ("\n" + "-" * 79 + "\n\n").join(parts)


if __name__ == "__main__":
    sys.exit(main())
