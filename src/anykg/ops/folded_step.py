"""Forward and backward of folded ISDEA+ on a training batch, compiled as a whole.

A step has about a hundred rows: calling sixty small tensor operations, and recording them for a backward pass, costs
more than the arithmetic. `ISDEA.score_triplets` is the same function in plain torch, and its autograd the reference.

P distinct pairs (entity, relation), B triplets, T graph layers of width D, F = 2T + 1 scalars for each pair. An MLP is
a pair of tuples: weights [out, in] and biases [out] of 3 layers; the two streams' MLPs are weights [2, in, out] and
biases [2, 1, out]. All float32, contiguous.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

MLP = tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]


@njit(cache=True)
def forward(
    moves: np.ndarray,  # [2, 2, F, F] as ISDEA makes them
    features: np.ndarray,  # [P, F]
    places: np.ndarray,  # [2B] where the heads, then the tails are among the pairs
    steps: np.ndarray,  # [B, 2]
    maps: np.ndarray,  # [T, 2, 2D, D]: of a state, then of what it gathers
    map_biases: np.ndarray,  # [T, 2, D]
    streams: MLP,
    combine: MLP,
    distance: MLP,
    scorer: MLP,
) -> Any:
    """Scores [B], and what `backward` needs."""
    mapped, folded = _fold(moves, maps, map_biases)
    weights, biases = streams
    pairs = len(features)
    hidden = np.empty((2, 3, pairs, weights[2].shape[2]), np.float32)
    for stream in range(2):
        np.dot(features, np.dot(folded[stream], weights[0][stream]), hidden[stream, 0])
        for layer in range(3):
            if layer:
                np.dot(hidden[stream, layer - 1], weights[layer][stream], hidden[stream, layer])
            _add_row(hidden[stream, layer], biases[layer][stream, 0])
            _tanh(hidden[stream, layer])
    states = _tanh_mlp(hidden[0, 2] + hidden[1, 2], combine)
    embedded = _tanh_mlp(steps, distance)
    rows = _read_rows(states[2], places, embedded[2])
    first = _relu_layer(rows, scorer[0][0], scorer[1][0])
    second = _relu_layer(first, scorer[0][1], scorer[1][1])
    scores = np.dot(second, scorer[0][2].T)
    _add_row(scores, scorer[1][2])
    return scores[:, 0].copy(), (mapped, folded, hidden, states, embedded, rows, first, second)


@njit(cache=True)
def backward(
    gradient: np.ndarray,  # [B] of the scores
    saved: Any,
    moves: np.ndarray,
    features: np.ndarray,
    places: np.ndarray,
    steps: np.ndarray,
    maps: np.ndarray,
    streams: MLP,
    combine: MLP,
    distance: MLP,
    scorer: MLP,
) -> Any:
    """Gradients of maps and their biases, then of weights and biases of each MLP, layer by layer."""
    mapped, folded, hidden, states, embedded, rows, first, second = saved
    over = np.ascontiguousarray(gradient).reshape(-1, 1)
    s3, t3 = np.dot(over.T, second), _column_sums(over)
    over = _relu_gradient(np.dot(over, scorer[0][2]), second)
    s2, t2 = np.dot(over.T, first), _column_sums(over)
    over = _relu_gradient(np.dot(over, scorer[0][1]), first)
    s1, t1 = np.dot(over.T, rows), _column_sums(over)
    over = np.dot(over, scorer[0][0])
    of_states, of_embedded = _read_gradient(over, states[2], places)
    _, of_distance = _tanh_mlp_gradient(of_embedded, steps, embedded, distance)
    of_sum, of_combine = _tanh_mlp_gradient(of_states, hidden[0, 2] + hidden[1, 2], states, combine)
    weights, _ = streams
    of_folded = np.empty_like(folded)
    w1, w2, w3 = np.empty_like(weights[0]), np.empty_like(weights[1]), np.empty_like(weights[2])
    biases = np.empty((3, 2, 1, hidden.shape[3]), np.float32)
    for stream in range(2):
        over = _tanh_gradient(of_sum.copy(), hidden[stream, 2])
        biases[2, stream, 0] = _column_sums(over)
        w3[stream] = np.dot(hidden[stream, 1].T, over)
        over = _tanh_gradient(np.dot(over, weights[2][stream].T), hidden[stream, 1])
        biases[1, stream, 0] = _column_sums(over)
        w2[stream] = np.dot(hidden[stream, 0].T, over)
        over = _tanh_gradient(np.dot(over, weights[1][stream].T), hidden[stream, 0])
        biases[0, stream, 0] = _column_sums(over)
        of_first = np.dot(features.T, over)  # [F, hidden]
        w1[stream] = np.dot(folded[stream].T, of_first)
        of_folded[stream] = np.dot(of_first, weights[0][stream].T)
    of_maps, of_map_biases = _fold_gradient(of_folded, moves, mapped, maps)
    of_streams = ((w1, w2, w3), (biases[0], biases[1], biases[2]))
    return of_maps, of_map_biases, of_streams, of_combine, of_distance, ((s1, s2, s3), (t1, t2, t3))


@njit(cache=True)
def _fold(moves: np.ndarray, maps: np.ndarray, biases: np.ndarray) -> Any:
    """[s, gathered s] of each layer [T, 2, F, 2D] and s^0..s^T [2, F, (T + 1) D] as coefficients of the scalars."""
    layers, _, width = biases.shape
    scalars = 2 * layers + 1
    mapped = np.empty((layers, 2, scalars, 2 * width), np.float32)
    folded = np.empty((2, scalars, (layers + 1) * width), np.float32)
    for stream in range(2):
        now = np.zeros((scalars, width), np.float32)
        now[0] = 1.0
        folded[stream, :, :width] = now
        for layer in range(layers):
            mapped[layer, stream, :, :width] = now
            mapped[layer, stream, :, width:] = np.dot(moves[min(layer, 1), stream], now)
            now = np.dot(mapped[layer, stream], maps[layer, stream])
            now[0] += biases[layer, stream]
            folded[stream, :, (layer + 1) * width : (layer + 2) * width] = now
    return mapped, folded


@njit(cache=True)
def _fold_gradient(gradient: np.ndarray, moves: np.ndarray, mapped: np.ndarray, maps: np.ndarray) -> Any:
    layers, width = maps.shape[0], maps.shape[3]
    of_maps = np.empty_like(maps)
    of_biases = np.empty((layers, 2, width), np.float32)
    for stream in range(2):
        over = gradient[stream, :, layers * width :].copy()
        for layer in range(layers - 1, -1, -1):
            of_biases[layer, stream] = over[0]
            of_maps[layer, stream] = np.dot(mapped[layer, stream].T, over)
            if layer:
                below = np.dot(over, maps[layer, stream].T)
                over = below[:, :width] + np.dot(moves[1, stream].T, np.ascontiguousarray(below[:, width:]))
                over += gradient[stream, :, layer * width : (layer + 1) * width]
    return of_maps, of_biases


@njit(cache=True)
def _tanh_mlp(inputs: np.ndarray, layers: MLP) -> np.ndarray:
    """What each of three layers of one width makes of the inputs: [3, rows, width]."""
    weights, biases = layers
    seen = np.empty((3, len(inputs), len(biases[0])), np.float32)
    for layer in range(3):
        np.dot(inputs if layer == 0 else seen[layer - 1], weights[layer].T, seen[layer])
        _add_row(seen[layer], biases[layer])
        _tanh(seen[layer])
    return seen


@njit(cache=True)
def _tanh_mlp_gradient(over: np.ndarray, inputs: np.ndarray, seen: np.ndarray, layers: MLP) -> Any:
    weights, _ = layers
    over = _tanh_gradient(over, seen[2])
    w3, b3 = np.dot(over.T, seen[1]), _column_sums(over)
    over = _tanh_gradient(np.dot(over, weights[2]), seen[1])
    w2, b2 = np.dot(over.T, seen[0]), _column_sums(over)
    over = _tanh_gradient(np.dot(over, weights[1]), seen[0])
    w1, b1 = np.dot(over.T, inputs), _column_sums(over)
    return np.dot(over, weights[0]), ((w1, w2, w3), (b1, b2, b3))


@njit(cache=True)
def _read_rows(states: np.ndarray, places: np.ndarray, embedded: np.ndarray) -> np.ndarray:
    """[X_head, X_tail, X_head * X_tail, e] of each triplet."""
    count, width = len(embedded), states.shape[1]
    rows = np.empty((count, 3 * width + embedded.shape[1]), np.float32)
    for row in range(count):
        head, tail = states[places[row]], states[places[count + row]]
        for unit in range(width):
            rows[row, unit] = head[unit]
            rows[row, width + unit] = tail[unit]
            rows[row, 2 * width + unit] = head[unit] * tail[unit]
        rows[row, 3 * width :] = embedded[row]
    return rows


@njit(cache=True)
def _read_gradient(over: np.ndarray, states: np.ndarray, places: np.ndarray) -> Any:
    count, width = len(over), states.shape[1]
    of_states = np.zeros_like(states)
    for row in range(count):
        head, tail = places[row], places[count + row]
        for unit in range(width):
            product = over[row, 2 * width + unit]
            of_states[head, unit] += over[row, unit] + product * states[tail, unit]
            of_states[tail, unit] += over[row, width + unit] + product * states[head, unit]
    return of_states, over[:, 3 * width :].copy()


@njit(cache=True)
def _relu_layer(inputs: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    out: np.ndarray = np.dot(inputs, weight.T)
    for row in range(out.shape[0]):
        for unit in range(out.shape[1]):
            out[row, unit] = max(out[row, unit] + bias[unit], np.float32(0))
    return out


@njit(cache=True)
def _relu_gradient(over: np.ndarray, seen: np.ndarray) -> np.ndarray:
    for row in range(over.shape[0]):
        for unit in range(over.shape[1]):
            over[row, unit] = over[row, unit] if seen[row, unit] > 0 else np.float32(0)
    return over


@njit(cache=True)
def _add_row(values: np.ndarray, row: np.ndarray) -> None:
    for place in range(values.shape[0]):
        for unit in range(values.shape[1]):
            values[place, unit] += row[unit]


@njit(cache=True)
def _column_sums(values: np.ndarray) -> np.ndarray:
    total = np.zeros(values.shape[1], np.float32)
    for row in range(values.shape[0]):
        for unit in range(values.shape[1]):
            total[unit] += values[row, unit]
    return total


@njit(cache=True, fastmath={"contract", "arcp", "nsz"}, error_model="numpy")
def _tanh(values: np.ndarray) -> None:
    """Take tanh in place by a rational minimax approximation, within 3e-7, that compiles to vectors; NaN stays NaN."""
    flat = values.reshape(-1)
    bound = np.float32(7.9053111)  # beyond it tanh is 1 in single precision
    for place in range(flat.size):
        x = flat[place]
        x = bound if x > bound else x
        x = -bound if x < -bound else x
        s = x * x
        p = np.float32(-2.76076847742355e-16)
        p = p * s + np.float32(2.00018790482477e-13)
        p = p * s + np.float32(-8.60467152213735e-11)
        p = p * s + np.float32(5.12229709037114e-08)
        p = p * s + np.float32(1.48572235717979e-05)
        p = p * s + np.float32(6.37261928875436e-04)
        p = p * s + np.float32(4.89352455891786e-03)
        q = np.float32(1.19825839466702e-06)
        q = q * s + np.float32(1.18534705686654e-04)
        q = q * s + np.float32(2.26843463243900e-03)
        q = q * s + np.float32(4.89352518554385e-03)
        flat[place] = x * p / q


@njit(cache=True)
def _tanh_gradient(over: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Multiply by 1 - seen^2 in place."""
    for row in range(over.shape[0]):
        for unit in range(over.shape[1]):
            over[row, unit] *= np.float32(1) - seen[row, unit] * seen[row, unit]
    return over
