"""Named tuples, made in a third of the time that :mod:`typing` takes.

In: classes as for :class:`typing.NamedTuple`. Out: the same classes. This module must not know
which they are.

``typing`` compiles the text of each annotation, to find out whether it could be a type. A command
makes some seventy of these classes when it starts: that was 10 ms, as long as Python itself takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    _LATE = "__annotate_func__"
    """What a class has from Python 3.14 on, in a module whose annotations are no texts: a function
    that returns them."""
    _VALUES = 1
    """``annotationlib.Format.VALUE``; importing it would take longer than all that is here."""
    _OWN = frozenset({"__module__", "__qualname__", "__annotations__", _LATE})

    class _Maker(type):
        """Makes a named tuple of what would be a class."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            """Make the class; the fields with a default stand behind those without."""
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            if _LATE in namespace:
                fields = namespace[_LATE](_VALUES)
            else:
                fields = namespace.get("__annotations__", {})
            given = [field for field in fields if field in namespace]
            made = namedtuple(
                name,
                fields,
                defaults=[namespace[field] for field in given],
                module=namespace["__module__"],
            )
            if given != list(made._field_defaults):
                raise TypeError(f"{name}: a field without a default behind one that has one")
            made.__qualname__ = namespace["__qualname__"]
            made.__annotations__ = made.__new__.__annotations__ = fields
            for key, value in namespace.items():
                if key not in _OWN and key not in fields:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        """What such classes are written as subclasses of."""


__all__ = ["NamedTuple"]
