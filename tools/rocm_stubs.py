"""Make stand-ins for the ROCm libraries, enough to load XLA's ROCm plugin and compile with it.

The plugin links against libraries of a ROCm installation. Compiling ahead of time calls none of
them for real, so each is replaced by a shared library that has the undefined symbols of the plugin
under the right name and symbol version, and answers every call with an error.

    python tools/rocm_stubs.py .../xla_rocm_plugin.so OUT        # then LD_LIBRARY_PATH=OUT

Needs gcc and nm.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

PREFIXES = {
    "hipblasLt": "libhipblaslt",
    "hipblaslt": "libhipblaslt",
    "hipfft": "libhipfft",
    "rocblas": "librocblas",
    "miopen": "libMIOpen",
    "nccl": "librccl",
    "rocprofiler": "librocprofiler-sdk",
    "roctx": "librocprofiler-sdk-roctx",
    "rsmi": "librocm_smi64",
    "hip": "libamdhip64",
    "__hip": "libamdhip64",
}
"""Symbol prefix -> library, longest prefix first where they overlap."""

TEXT_RESULTS = re.compile(r"(GetErrorString|GetErrorName|GetLastError|status_string)$")
BODIES = {
    "hipGetDeviceCount": "int hipGetDeviceCount(int *n) { if (n) *n = 0; return 100; }",
    "hipRuntimeGetVersion": "int hipRuntimeGetVersion(int *n) { if (n) *n = 70253211; return 0; }",
    "hipDriverGetVersion": "int hipDriverGetVersion(int *n) { if (n) *n = 70253211; return 0; }",
    "__hipRegisterFatBinary": (
        "static void *image[4]; void *__hipRegisterFatBinary(void *p) { return image; }"
    ),
}
NO_DEVICE = 100
"""hipErrorNoDevice."""


def needed_libraries(plugin: Path) -> list[str]:
    """Names of the shared libraries that the plugin asks the loader for."""
    text = subprocess.check_output(["objdump", "-p", str(plugin)], text=True)
    return re.findall(r"NEEDED\s+(\S+)", text)


def undefined_symbols(plugin: Path) -> list[tuple[str, str]]:
    """(symbol, version) of what the plugin leaves undefined; the version may be empty."""
    text = subprocess.check_output(["nm", "-D", "--undefined-only", str(plugin)], text=True)
    pairs = []
    for line in text.splitlines():
        symbol, _, version = line.split()[-1].partition("@")
        pairs.append((symbol, version.lstrip("@")))
    return pairs


def library_of(symbol: str) -> str | None:
    """The library that a symbol belongs to, by its prefix; C++ names by what they hold."""
    if symbol.startswith("_Z") and "hipblaslt" in symbol.lower():
        return "libhipblaslt"
    found = [prefix for prefix in PREFIXES if symbol.startswith(prefix)]
    return PREFIXES[max(found, key=len)] if found else None


def body(symbol: str) -> str:
    """C source of one stand-in function."""
    if symbol in BODIES:
        return BODIES[symbol]
    if TEXT_RESULTS.search(symbol):
        return f'const char *{symbol}(void) {{ return "stand-in"; }}'
    if symbol.startswith(("__hip", "rocprofiler_force_configure")):
        return f"int {symbol}(void) {{ return 0; }}"
    error = NO_DEVICE if symbol.startswith("hip") else 1
    return f"int {symbol}(void) {{ return {error}; }}"


def version_script(versions: dict[str, set[str]]) -> str:
    """A linker script that puts symbols under their versions, oldest first."""
    text, before = "", ""
    for version in sorted(versions):
        symbols = " ".join(f"{symbol};" for symbol in sorted(versions[version]))
        text += f"{version} {{ global: {symbols} }} {before};\n"
        before = version
    return text


def build(name: str, versions: dict[str, set[str]], folder: Path) -> None:
    """Compile one stand-in library."""
    source = folder / f"{name}.c"
    symbols = sorted(set().union(*versions.values())) if versions else []
    source.write_text("\n".join(map(body, symbols)) + "\n", encoding="utf-8")
    command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", str(source)]
    command += ["-o", str(folder / name), f"-Wl,-soname,{name}"]
    named = {version: found for version, found in versions.items() if version}
    if named:
        script = folder / f"{name}.map"
        script.write_text(version_script(named), encoding="utf-8")
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)


def main(plugin: Path, folder: Path) -> None:
    """Build every library of the plugin that ROCm would bring."""
    folder.mkdir(parents=True, exist_ok=True)
    by_library: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for symbol, version in undefined_symbols(plugin):
        library = library_of(symbol)
        if library is not None and not version.startswith(("GLIBC", "GCC", "CXXABI")):
            by_library[library][version].add(symbol)
    stems = set(PREFIXES.values())
    for name in needed_libraries(plugin):
        stem = name.split(".so")[0]
        if stem in stems:
            build(name, by_library.get(stem, {}), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
