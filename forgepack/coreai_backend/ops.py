"""The operations that our programs are made of, over Core AI's public facade.

A tensor is a ``coreai.authoring.Value``; shapes and axes are plain Python. Small constants (shapes, axes, scalars)
are stored inline in the asset, the others by name: Core AI would name an unnamed buffer after a memory address.
No operation here may take two constants, or the rewrite folds them into such an unnamed one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forgepack.coreai_backend.bindings import Tensor, constant_of
from forgepack.geometry import Shape

_F16 = np.float16


class Ops:
    """Operations inserted into the function that is open."""

    def __init__(self, resources: Callable[[str], Any]) -> None:
        import coreai.authoring as ca
        from coreai.authoring.constant import constant

        self._ca = ca
        self._inline = constant
        self._resources = resources
        self._named: dict[str, Tensor] = {}

    def named(self, name: str) -> Tensor:
        """Return the constant of that name, inserted once a function."""
        if name not in self._named:
            self._named[name] = constant_of(self._resources(name))
        return self._named[name]

    def scalar(self, value: float) -> Tensor:
        """Return an inline float16 scalar."""
        return self._inline(np.array(value, _F16))

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Return ``x`` in another shape of the same size."""
        return self._ca.reshape(x, np.array(shape, np.uint32))

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Return ``x`` with its axes permuted."""
        return self._ca.transpose(x, np.array(axes, np.uint32))

    def slice(self, x: Tensor, begin: Sequence[int], end: Sequence[int]) -> Tensor:
        """Return the box ``begin <= index < end``."""
        ones = np.ones(len(begin), np.int32)
        return self._ca.slice_(x, np.array(begin, np.int32), np.array(end, np.int32), ones)

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Return the parts side by side; a single part is returned as it is."""
        return parts[0] if len(parts) == 1 else self._ca.concat(np.array(axis, np.int32), list(parts))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x + y, broadcast."""
        return self._ca.broadcasting_add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x · y, broadcast."""
        return self._ca.broadcasting_mul(x, y)

    def divide(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x / y, broadcast."""
        return self._ca.broadcasting_divide(x, y)

    def maximum(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the larger of each pair, broadcast."""
        return self._ca.broadcasting_maximum(x, y)

    def abs(self, x: Tensor) -> Tensor:
        """Return |x|."""
        return self._ca.abs_(x)

    def tanh(self, x: Tensor) -> Tensor:
        """Return tanh x."""
        return self._ca.tanh(x)

    def rsqrt(self, x: Tensor) -> Tensor:
        """Return 1/sqrt(x)."""
        return self._ca.rsqrt(x)

    def reduce_max(self, x: Tensor, axis: int) -> Tensor:
        """Return the maximum along one axis, which stays with size 1."""
        return self._ca.reduce_max(x, np.array([axis], np.int32))

    def reduce_mean(self, x: Tensor, axis: int) -> Tensor:
        """Return the mean along one axis, which stays with size 1."""
        return self._ca.reduce_mean(x, np.array([axis], np.int32))

    def softmax(self, x: Tensor, axis: int) -> Tensor:
        """Return the softmax along one axis."""
        return self._ca.softmax(x, np.array(axis, np.int32))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the batched matrix product."""
        return self._ca.broadcasting_batch_matmul(x, y)

    def pointwise(self, x: Tensor, kernel: Tensor) -> Tensor:
        """Return the 1x1 convolution of x (1,Cin,1,N) with a kernel (Cout,Cin,1,1): Cout x N."""
        ones = np.array([1, 1], np.uint32)
        return self._ca.conv2d(x, kernel, ones, ones, np.array(1, np.uint32))

    def lut_kernel(self, indices: Tensor, table: Tensor) -> Tensor:
        """Return the kernel ``table[indices]``: indices (Cout,Cin,1,1) U4, table (1,1,1,1,16,1) F16."""
        return self._ca.lut_to_dense(indices, table, self._inline(np.array(0, np.int16)))

    def int8_kernel(self, codes: Tensor, scale: Tensor, zero_code: Tensor, zero: Tensor) -> Tensor:
        """Return the kernel ``(codes - zero_code)·scale + zero``; codes (Cout,Cin,1,1) I8, the rest per row."""
        return self._ca.blockwise_shift_scale(codes, scale, zero_code, zero)


LUT_SHAPE: Shape = (1, 1, 1, 1, 16, 1)
