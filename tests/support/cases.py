"""Many small cases in one test, which saves time, and the number of examples of hypothesis."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def examples(most: int) -> int:
    """Return how many examples hypothesis makes: ``most`` in long tests, a fifth by default."""
    return max(1, most * settings.default.max_examples // 100)


def for_each(name: str, values: Collection[Any]) -> Callable[[Callable[..., None]], Any]:
    """Let a test take each value in turn, in place of ``pytest.mark.parametrize``.

    The failure names the value. For tests of pure functions: fixtures are the same for all values.
    """

    def decorate(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            assert values
            for value in values:
                try:
                    test(**{name: value}, **fixtures)
                except BaseException as error:
                    error.add_note(f"{name}: {value!r}")
                    raise

        signature = inspect.signature(test)
        others = [each for each in signature.parameters.values() if each.name != name]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate
