"""Named tuple classes, created in a third of the time that :mod:`typing` takes.

In: classes written as for :class:`typing.NamedTuple`. Out: the same classes.

``typing`` compiles the text of each annotation, to find out whether it could be a type. A command
makes some seventy of these classes when it starts: that was 10 ms, as long as Python itself takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    _ANNOTATE = "__annotate_func__"
    """From Python 3.14 on, in a module without ``from __future__ import annotations``, a class has
    this function in place of annotations: it returns them."""
    _VALUES = 1
    """``annotationlib.Format.VALUE``; importing it would take longer than this whole module."""
    _NOT_COPIED = frozenset({"__module__", "__qualname__", "__annotations__", _ANNOTATE})

    class _Maker(type):
        """Metaclass that turns the body of a class into a named tuple."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            """Make the class; raises TypeError if a field without a default follows one with."""
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            if _ANNOTATE in namespace:
                fields = namespace[_ANNOTATE](_VALUES)
            else:
                fields = namespace.get("__annotations__", {})
            with_default = [field for field in fields if field in namespace]
            tuple_class = namedtuple(
                name,
                fields,
                defaults=[namespace[field] for field in with_default],
                module=namespace["__module__"],
            )
            if with_default != list(tuple_class._field_defaults):
                raise TypeError(f"{name}: a field without a default behind one that has one")
            tuple_class.__qualname__ = namespace["__qualname__"]
            tuple_class.__annotations__ = tuple_class.__new__.__annotations__ = fields
            for key, value in namespace.items():
                if key not in _NOT_COPIED and key not in fields:
                    setattr(tuple_class, key, value)
            return tuple_class

    class NamedTuple(metaclass=_Maker):
        """Base class of named tuples, used like :class:`typing.NamedTuple`."""


__all__ = ["NamedTuple"]
