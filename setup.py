"""Compiles the modules that have a ``.pxd`` beside them; all else is said in ``pyproject.toml``.

Where that cannot be done (no compiler, no headers of Python), the modules are installed as they
are, and run uncompiled. With ``KANALYZE_REQUIRE_COMPILED=1`` it is an error; ``KANALYZE_PURE=1``
compiles nothing; ``KANALYZE_ABI3=1`` compiles for every Python from 3.11 on, which takes 13 to 20 %
of the speed (CIBW_ENVIRONMENT in ``pyproject.toml``). ``KANALYZE_SANITIZE=1`` adds the address and
undefined-behaviour sanitizers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
REQUIRED = os.environ.get("KANALYZE_REQUIRE_COMPILED") == "1"
PURE = os.environ.get("KANALYZE_PURE") == "1"
ABI3 = os.environ.get("KANALYZE_ABI3") == "1"
SANITIZE = os.environ.get("KANALYZE_SANITIZE") == "1"

DIRECTIVES = {
    "language_level": 3,
    # What comes from the wire is an index somewhere: each is checked, compiled as uncompiled.
    "boundscheck": True,
    "initializedcheck": True,
    "wraparound": False,
    "cdivision": True,
    # The types of Python are for people and mypy; those of C are in the .pxd files.
    "annotation_typing": False,
    "infer_types": False,
    "auto_pickle": False,
}


def extensions() -> list[Extension]:
    """Return the modules to compile, as C."""
    try:
        from Cython.Build import cythonize
    except ModuleNotFoundError:
        if REQUIRED:
            raise
        return []
    flags = ["-fsanitize=address,undefined", "-g"] if SANITIZE else []
    made: list[Extension] = []
    for types in sorted((ROOT / "kanalyze").rglob("*.pxd")):
        source = types.relative_to(ROOT).with_suffix(".py")
        made.append(
            Extension(
                ".".join(source.with_suffix("").parts),
                [str(source)],
                define_macros=[("Py_LIMITED_API", "0x030B0000")] if ABI3 else [],
                py_limited_api=ABI3,
                extra_compile_args=flags,
                extra_link_args=flags,
            )
        )
    compiled: list[Extension] = cythonize(made, compiler_directives=DIRECTIVES, quiet=True)
    for extension in compiled:
        extension.optional = not REQUIRED  # to be set here: cythonize drops it
    return compiled


class BuildWhatCanBeBuilt(build_ext):
    """Goes on without compiled modules where nothing can be compiled, unless they are required."""

    def run(self) -> None:
        """Compile."""
        try:
            super().run()
        except Exception as error:
            if REQUIRED:
                raise
            print(f"kanalyze: not compiled, it will run slowly: {error}", file=sys.stderr)


setup(
    ext_modules=[] if PURE else extensions(),
    cmdclass={"build_ext": BuildWhatCanBeBuilt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
)
