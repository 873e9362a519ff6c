"""Vectors of L floats as values inside numba kernels.

The compiler's own vectoriser gives up if two arrays might overlap, as in every in-place update. Here a kernel states
what is a vector: `load` L neighbouring floats of a flat float32 array, compute, `store`. LLVM maps <L x
float> to whatever registers the processor has, so nothing here depends on it. L must be a compile-time constant.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

_FLOAT = ir.FloatType()


class Lanes(types.Type):
    """The numba type of a vector of `count` floats."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(name=f"Lanes({count})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, ir.VectorType(_FLOAT, kind.count))


def _address(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, count: int) -> Any:
    """A pointer to `count` floats of a flat array, `offset` floats from its beginning."""
    data = context.make_array(array_type)(context, builder, array).data
    vector = ir.VectorType(_FLOAT, count).as_pointer()
    return builder.bitcast(builder.gep(data, [offset]), vector)


@intrinsic(prefer_literal=True)
def load(typing: Any, array: Any, offset: Any, lanes: Any) -> Any:
    """The floats from `offset` on, as many as the constant `lanes` says."""
    count = lanes.literal_value

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = _address(context, builder, signature.args[0], arguments[0], arguments[1], count)
        value = builder.load(where)
        value.align = 4
        return value

    return Lanes(count)(array, types.intp, lanes), emit


@intrinsic
def load_like(typing: Any, array: Any, offset: Any, other: Any) -> Any:
    """As many floats from `offset` on as the vector `other` has."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = _address(context, builder, signature.args[0], arguments[0], arguments[1], other.count)
        value = builder.load(where)
        value.align = 4
        return value

    return other(array, types.intp, other), emit


@intrinsic
def store(typing: Any, array: Any, offset: Any, value: Any) -> Any:
    """Write the vector from `offset` on."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = _address(context, builder, signature.args[0], arguments[0], arguments[1], value.count)
        builder.store(arguments[2], where).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, value), emit


def _broadcast(builder: Any, scalar: Any, count: int) -> Any:
    vector = ir.VectorType(_FLOAT, count)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


@intrinsic(prefer_literal=True)
def splat(typing: Any, scalar: Any, lanes: Any) -> Any:
    """The scalar in every one of L lanes."""
    count = lanes.literal_value

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _broadcast(builder, arguments[0], count)

    return Lanes(count)(types.float32, lanes), emit


@intrinsic
def splat_like(typing: Any, scalar: Any, other: Any) -> Any:
    """The scalar in as many lanes as the vector `other` has."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _broadcast(builder, arguments[0], other.count)

    return other(types.float32, other), emit


@intrinsic(prefer_literal=True)
def splat_at(typing: Any, array: Any, offset: Any, lanes: Any) -> Any:
    """One float of the array in every one of L lanes, without the test for a negative index."""
    count = lanes.literal_value

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return _broadcast(builder, builder.load(builder.gep(data, [arguments[1]])), count)

    return Lanes(count)(array, types.intp, lanes), emit


def _elementwise(name: str) -> Any:
    @intrinsic
    def operation(typing: Any, left: Any, right: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(*arguments)

        return left(left, right), emit

    return operation


add = _elementwise("fadd")
subtract = _elementwise("fsub")
multiply = _elementwise("fmul")
divide = _elementwise("fdiv")


@intrinsic
def square_root(typing: Any, value: Any) -> Any:
    """The square root of every lane."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(arguments[0].type, [arguments[0].type])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{value.count}f32")
        return builder.call(function, arguments)

    return value(value), emit


@intrinsic
def multiply_add(typing: Any, left: Any, right: Any, addend: Any) -> Any:
    """Left * right + addend, rounded once where the processor can."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = arguments[0].type
        kind = ir.FunctionType(vector, [vector] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{addend.count}f32")
        return builder.call(function, arguments)

    return addend(left, right, addend), emit


def _selecting(predicate: str) -> Any:
    @intrinsic
    def operation(typing: Any, left: Any, right: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.select(builder.fcmp_unordered(predicate, *arguments), *arguments)

        return left(left, right), emit

    return operation


larger = _selecting(">")  # NaN on the left is propagated, so that a broken model is noticed
smaller = _selecting("<")


@intrinsic
def where_positive(typing: Any, condition: Any, value: Any) -> Any:
    """The value where the condition is above 0, elsewhere 0: the gradient of a ReLU."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = ir.Constant(arguments[0].type, None)
        return builder.select(builder.fcmp_unordered(">", arguments[0], zero), arguments[1], zero)

    return value(condition, value), emit


@intrinsic
def if_positive(typing: Any, condition: Any, value: Any, otherwise: Any) -> Any:
    """The value where the condition is above 0, elsewhere the other one."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = ir.Constant(arguments[0].type, None)
        return builder.select(builder.fcmp_ordered(">", arguments[0], zero), *arguments[1:])

    return value(condition, value, otherwise), emit


@intrinsic
def total(typing: Any, value: Any) -> Any:
    """The sum of all lanes, added pairwise."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (part,), count = arguments, value.count
        while count > 1 and count % 2 == 0:
            count //= 2
            halves = [
                builder.shuffle_vector(
                    part,
                    ir.Constant(part.type, ir.Undefined),
                    ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(first, first + count))),
                )
                for first in (0, count)
            ]
            part = builder.fadd(*halves)
        result = builder.extract_element(part, ir.Constant(ir.IntType(32), 0))
        for lane in range(1, count):
            result = builder.fadd(result, builder.extract_element(part, ir.Constant(ir.IntType(32), lane)))
        return result

    return types.float32(value), emit


@intrinsic
def where_equal(typing: Any, left: Any, right: Any, value: Any) -> Any:
    """The value where left equals right, elsewhere 0."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        same = builder.fcmp_ordered("==", arguments[0], arguments[1])
        return builder.select(same, arguments[2], ir.Constant(arguments[2].type, None))

    return value(left, right, value), emit


@intrinsic
def width_of(typing: Any, value: Any) -> Any:
    """How many lanes a vector has, a constant."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_constant(types.intp, value.count)

    return types.intp(value), emit


@intrinsic
def prefetch_like(typing: Any, array: Any, offset: Any, other: Any) -> Any:
    """Prefetch what `load_like` would read into the cache."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        for start in range(0, other.count, 16):  # a cache line holds 16 floats
            at = builder.add(arguments[1], ir.Constant(arguments[1].type, start))
            where = builder.bitcast(builder.gep(data, [at]), pointer)
            builder.call(function, [where, *(ir.Constant(number, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp, other), emit
