"""Compiles the modules that have a ``.pxd`` beside them, and makes what is made from sources.

The page of the package is made from the README, and the files for shells from the parser, by
``tools/packaging``; all else is said in ``pyproject.toml``.

Where that cannot be done (no compiler, no headers of Python), the modules are installed as they
are, and run uncompiled. With ``KANALYZE_REQUIRE_COMPILED=1`` it is an error; ``KANALYZE_PURE=1``
compiles nothing; ``KANALYZE_ABI3=1`` compiles for every Python from 3.11 on, which takes 13 to 20 %
of the speed, and has to be done with Python 3.11 (see ``[tool.cibuildwheel]`` in
``pyproject.toml``). ``KANALYZE_SANITIZE=1`` adds the address and undefined-behaviour sanitizers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools" / "packaging"))  # the build backend has it there already

from package_page import package_page  # noqa: E402
from shell_files import InstallShellFiles  # noqa: E402

REQUIRED = os.environ.get("KANALYZE_REQUIRE_COMPILED") == "1"
PURE = os.environ.get("KANALYZE_PURE") == "1"
ABI3 = os.environ.get("KANALYZE_ABI3") == "1"
SANITIZE = os.environ.get("KANALYZE_SANITIZE") == "1"
OLDEST = (3, 11)
CORES = os.cpu_count() or 1
CPU_SECONDS = 110
"""What gcc takes for all modules, on the processor that the README's figures are of."""
SHARED = "kanalyze._cyutility"
"""What Cython adds to every module, once: a third of the time to compile and to import them."""

# Python's own flags have -fwrapv, under which no overflow of a signed number is looked for. With
# -O1, gcc takes ten minutes of processor time for what the sanitizers add.
SANITIZERS = ["-fsanitize=address,undefined", "-fno-wrapv", "-g1", "-O0"]

# Python's own flags have -g: what debuggers need is a quarter of the time to compile.
FOR_NO_DEBUGGER = [] if sys.platform == "win32" else ["-g0"]

# They have -O3 too, which takes gcc twice as long as -O1, and makes `requests` 5 % faster. So each
# module has what it needs, by the instructions that `requests` takes (valgrind --tool=callgrind,
# by library): with these flags they are 0.5 % more than with -O3 for all.
FLAGS = {
    "-O3": {
        "kanalyze.export.text",
        "kanalyze.kafka.codec.machine",
        "kanalyze.net.header_cursor",
        "kanalyze.tables.requests.summaries",
        "kanalyze.tables.requests.topics",
    },
    # What every request goes through. No larger than with -O1, and a thirtieth less to do.
    "-O2": {
        "kanalyze.kafka.framing.framer",
        "kanalyze.kafka.session.connection",
        "kanalyze.kafka.session.correlation",
        "kanalyze.kafka.session.events",
        "kanalyze.kafka.session.exchange",
        "kanalyze.kafka.session.exchange_builder",
        "kanalyze.kafka.session.message_reader",
        "kanalyze.kafka.session.whole_messages",
        "kanalyze.tables.columns.buffers",
        "kanalyze.tables.requests.extract",
        "kanalyze.tables.requests.long_polls",
        "kanalyze.tables.requests.row_assembler",
        "kanalyze.tables.requests.row_columns",
    },
    # What -O3 gains in these is inlining. (zig knows these flags too, other names it refuses.)
    "-O1 -finline-small-functions -finline-functions -fexpensive-optimizations": {
        "kanalyze.capture.formats.packet_scan",
        "kanalyze.common.int_columns",
        "kanalyze.kafka.codec.values",
        "kanalyze.net.headers",
        "kanalyze.net.tcp.connection",
        "kanalyze.net.tcp.segment_iterator",
    },
    # Two thirds of the time of -O1, for what runs once for a connection or less, or takes less than
    # a hundredth of the time of `requests`.
    "-Og": {
        "kanalyze.kafka.session.decode_plans",
        "kanalyze.kafka.session.resync",
        "kanalyze.kafka.session.tracker",
        "kanalyze.model.streams",
        "kanalyze.net.tcp.half_stream",
        "kanalyze.tls.direction",
        "kanalyze.tls.protection",
        "kanalyze.tls.records",
    },
}
FOR_ALL_OTHERS = "-O1"

# What runs once, when a module is imported, is an eighth of the code: it is not optimized.
ONCE = [] if sys.platform == "win32" else [("CYTHON_SMALL_CODE", '__attribute__((optimize("O0")))')]

DIRECTIVES = {
    "language_level": 3,
    # What comes from the wire is an index somewhere: each is checked, compiled as uncompiled.
    "boundscheck": True,
    "initializedcheck": True,
    # A list counts from its end, compiled as uncompiled.
    "wraparound": True,
    "cdivision": True,
    # The types of Python are for people and mypy; those of C are in the .pxd files.
    "annotation_typing": False,
    # Where no overflow can come of it, and only where the type is that of an assigned value: what a
    # .pxd would say again of local names.
    "infer_types": None,
    "auto_pickle": False,
    # What it hints at is to leave out the checks.
    "show_performance_hints": False,
    # Copies of the source as comments, a tenth of the text that the compiler reads.
    "emit_code_comments": False,
    # Functions are those of C, without a signature and defaults that can be changed, and one of a
    # single argument takes it by position: a twentieth of the text that the compiler reads.
    "binding": False,
    "always_allow_keywords": False,
}


def extensions() -> list[Extension]:
    """Return the modules to compile, as C."""
    if ABI3 and sys.version_info[:2] != OLDEST:
        # The headers of 3.12 and of 3.13.0 count no references to True and False in functions that
        # return them, whatever Py_LIMITED_API is: in 3.11 the process would be aborted soon.
        raise BaseError("KANALYZE_ABI3=1 needs Python 3.11, whose headers are right for all later")
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError
    except ModuleNotFoundError as error:
        _go_on_without(error)
        return []
    try:
        compiled: list[Extension] = cythonize(
            [*modules(), shared()],
            compiler_directives=DIRECTIVES,
            quiet=True,
            nthreads=CORES,
            shared_utility_qualified_name=SHARED,
        )
    except CompileError as error:  # a Cython that takes what others do not, or the reverse
        _go_on_without(error)
        return []
    for extension in compiled:
        extension.optional = not REQUIRED  # to be set here: cythonize drops it
    return compiled


def shared() -> Extension:
    """Return the module of what Cython adds, whose source it writes."""
    return _extension(SHARED, SHARED.replace(".", "/") + ".c")


def modules() -> list[Extension]:
    """Return the modules to compile, as Python: those with a ``.pxd`` beside them."""
    sources = [
        types.relative_to(ROOT).with_suffix(".py")
        for types in sorted((ROOT / "kanalyze").rglob("*.pxd"))
    ]
    return [_extension(".".join(source.with_suffix("").parts), str(source)) for source in sources]


def _extension(name: str, source: str) -> Extension:
    limited = [("Py_LIMITED_API", "0x{:02X}{:02X}0000".format(*OLDEST))] if ABI3 else []
    return Extension(
        name,
        [source],
        define_macros=limited if SANITIZE else [*limited, *ONCE],
        py_limited_api=ABI3,
        extra_compile_args=SANITIZERS if SANITIZE else [*FOR_NO_DEBUGGER, *_optimization(name)],
        extra_link_args=SANITIZERS if SANITIZE else [],
    )


def _optimization(name: str) -> list[str]:
    """Return how a module is optimized, for compilers that take the flags of gcc."""
    if sys.platform == "win32":
        return []
    chosen = (flags for flags, names in FLAGS.items() if name in names)
    return next(chosen, FOR_ALL_OTHERS).split()


class BuildAllOrNothing(build_ext):
    """Leaves all modules uncompiled where one cannot be compiled, unless they are required.

    They know each other's C types: a compiled one cannot run beside one that is not.
    """

    def finalize_options(self) -> None:
        """Compile on all processors.

        Not by ``options`` of ``setup``: an editable installation sets them back.
        """
        super().finalize_options()
        self.parallel = self.parallel or CORES

    def run(self) -> None:
        """Compile, the largest modules first, so that all processors end together."""
        self.extensions.sort(key=lambda each: Path(each.sources[0]).stat().st_size, reverse=True)
        print(
            f"kanalyze: {len(self.extensions)} modules to compile, on {CORES} processors: at most "
            f"{CPU_SECONDS // CORES} seconds or so where all are new",
            flush=True,
        )
        try:
            super().run()
        except (BaseError, CCompilerError) as error:
            _go_on_without(error)
        names = [extension.name for extension in self.extensions]
        built = [Path(path) for name in names for path in self._places(name)]
        if not all(path.exists() for path in built):
            _go_on_without(BaseError("not every module was built, see above"))
            for path in built:
                path.unlink(missing_ok=True)

    def _places(self, name: str) -> list[str]:
        """Return where a compiled module is to be."""
        built = str(Path(self.build_lib, self.get_ext_filename(name)))
        return [built, self.get_ext_fullpath(name)] if self.inplace else [built]


def _go_on_without(error: Exception) -> None:
    """Say that nothing is compiled, and why; raise where it has to be."""
    if REQUIRED:
        print("kanalyze: cannot be compiled, and KANALYZE_REQUIRE_COMPILED=1", file=sys.stderr)
        raise error
    print(f"kanalyze: not compiled, it will run slowly: {error}", file=sys.stderr)


# Where Cython's processes are not forks (Python 3.14, macOS), each of them imports this file.
if __name__ == "__main__":
    setup(
        ext_modules=[] if PURE else extensions(),
        cmdclass={"build_ext": BuildAllOrNothing, "install_data": InstallShellFiles},
        # The files are made where they are installed; without an entry there would be no such step.
        data_files=[("share", [])],
        long_description=package_page((ROOT / "README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
        options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
    )
