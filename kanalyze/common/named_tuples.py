"""Named tuple classes, created in a tenth of the time that :mod:`typing` takes.

In: classes written as for :class:`typing.NamedTuple`. Out: the same classes.

A command makes some ninety of these classes when it starts. :func:`collections.namedtuple` compiles
a ``__new__`` for each, which took a tenth of a short command; here those with equally many fields
share the compiled code, and all share the other methods. ``typing`` also compiles the text of each
annotation, to find out whether it could be a type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple
    from types import FunctionType

    _ANNOTATE = "__annotate_func__"
    """From Python 3.14 on, in a module without ``from __future__ import annotations``, a class has
    this function in place of annotations: it returns them."""
    _VALUES = 1
    """``annotationlib.Format.VALUE``; importing it would take longer than this whole module."""
    _FieldOf = type(namedtuple("_", ("field",)).field)
    """What returns a field: Python's own, in C."""
    _NEW_CODES = {}
    """The code of ``__new__`` by number of fields."""

    def _new(name, fields, defaults):
        """Return the ``__new__`` of a class with this name and these fields."""
        count = len(fields)
        code = _NEW_CODES.get(count)
        if code is None:
            names = "".join([f"_{at}," for at in range(count)])
            new = eval(f"lambda _cls,{names}: _tuple_new(_cls,({names}))")  # noqa: S307
            code = _NEW_CODES[count] = new.__code__
        code = code.replace(
            co_name="__new__", co_qualname=f"{name}.__new__", co_varnames=("_cls", *fields)
        )
        return FunctionType(code, {"_tuple_new": tuple.__new__}, "__new__", defaults)

    @classmethod
    def _make(cls, values):
        """Return a tuple of an iterable of all its fields."""
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"expected {len(cls._fields)} fields, got {len(made)}")
        return made

    def _replace(self, /, **fields):
        """Return the tuple with some of its fields replaced."""
        made = self._make(map(fields.pop, self._fields, self))
        if fields:
            raise TypeError(f"no such fields: {list(fields)}")
        return made

    def _asdict(self):
        """Return the fields by name."""
        return dict(zip(self._fields, self, strict=True))

    def _repr(self):
        pairs = zip(self._fields, self, strict=True)
        return f"{type(self).__name__}({', '.join([f'{name}={each!r}' for name, each in pairs])})"

    def _new_arguments(self):
        """Return the fields, for ``pickle`` and ``copy``."""
        return tuple(self)

    _SHARED = {
        "_make": _make,
        "_replace": _replace,
        "__replace__": _replace,
        "_asdict": _asdict,
        "__repr__": _repr,
        "__getnewargs__": _new_arguments,
        "__slots__": (),
    }

    class _Maker(type):
        """Metaclass that turns the body of a class into a named tuple."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            """Make the class; raises TypeError if a field without a default follows one with."""
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            if _ANNOTATE in namespace:
                annotations = namespace.pop(_ANNOTATE)(_VALUES)
            else:
                annotations = namespace.get("__annotations__", {})
            fields = tuple(annotations)
            defaults = {field: namespace[field] for field in fields if field in namespace}
            if fields[len(fields) - len(defaults) :] != tuple(defaults):
                raise TypeError(f"{name}: a field without a default behind one that has one")
            new = _new(name, fields, tuple(defaults.values()))
            new.__annotations__ = annotations
            return type(
                name,
                (tuple,),
                {
                    "__doc__": f"{name}({', '.join(fields)})",
                    **_SHARED,
                    **namespace,
                    **{field: _FieldOf(at, "") for at, field in enumerate(fields)},
                    "__annotations__": annotations,
                    "__match_args__": fields,
                    "__new__": new,
                    "_fields": fields,
                    "_field_defaults": defaults,
                },
            )

    class NamedTuple(metaclass=_Maker):
        """Base class of named tuples, used like :class:`typing.NamedTuple`."""


__all__ = ["NamedTuple"]
