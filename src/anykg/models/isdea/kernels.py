"""Compiled forward and backward pass of folded ISDEA+ on a training batch.

A step has about a hundred rows: calling sixty small tensor operations, and recording them for a backward pass, costs
more than the arithmetic. `ISDEA.score_triplets` is the same function in plain torch, and its autograd the reference.

P distinct pairs (entity, relation), B triplets, T graph layers of width D, F = 2T + 1 scalars for each pair. All
weights, and all their gradients, come in one flat array: maps, their biases, then weights and biases of four MLPs. An
MLP is a pair of tuples: weights [out, in] and biases [out] of 3 layers; the two streams' MLPs are weights [2, in, out]
and biases [2, out]. All float32, contiguous.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from anykg.tasks import take

MLP = tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]


class Scalars(NamedTuple):
    """The scalars of a graph, `models.isdea.folded.FoldedScalars` as arrays."""

    entity: np.ndarray  # [N, T + 1]
    pair: np.ndarray  # [N 2R, T]


BLOCK = 256
"""Triplets per block of `score`, chosen so that a block fits a core's cache."""


@njit(cache=True, nogil=True)
def score(
    counter: np.ndarray,
    triplets: np.ndarray,  # [B, 3]
    scalars: Scalars,
    moves: np.ndarray,
    steps: np.ndarray,
    sizes: tuple[int, ...],
    flat: np.ndarray,
    scores: np.ndarray,  # [B]
) -> None:
    """Fill scores of any number of triplets: `gather` and `forward` in blocks; for `threads.spread`."""
    tasks = (len(triplets) + BLOCK - 1) // BLOCK
    for _ in range(tasks):
        block = take(counter)
        if block >= tasks:
            break
        rows = slice(block * BLOCK, min((block + 1) * BLOCK, len(triplets)))
        features, positions = gather(triplets[rows], scalars)
        found, _ = forward(moves, features, positions, steps[rows], sizes, flat)
        scores[rows] = found


@njit(cache=True)
def gather(triplets: np.ndarray, scalars: Scalars) -> Any:
    """Scalars [P, F] of the distinct pairs of triplets [B, 3], and positions [2B] of heads, then tails among them."""
    entity, pair = scalars
    count, kinds = len(triplets), len(pair) // len(entity)
    keys = np.empty(2 * count, np.int64)
    for row in range(count):
        keys[row] = triplets[row, 0] * kinds + triplets[row, 1]
        keys[count + row] = triplets[row, 2] * kinds + triplets[row, 1]
    features = np.empty((2 * count, entity.shape[1] + pair.shape[1]), np.float32)
    positions = np.empty(2 * count, np.int64)
    found, before = -1, np.int64(-1)
    for i in np.argsort(keys):
        if keys[i] != before:
            found, before = found + 1, keys[i]
            features[found, : entity.shape[1]] = entity[before // kinds]
            features[found, entity.shape[1] :] = pair[before]
        positions[i] = found
    return features[: found + 1], positions


@njit(cache=True)
def loss(
    triplets: np.ndarray,
    scalars: Scalars,
    moves: np.ndarray,
    steps: np.ndarray,
    positive: np.ndarray,  # [B]
    positive_weight: float,
    sizes: tuple[int, ...],
    flat: np.ndarray,
) -> Any:
    """Cross-entropy of triplets [B, 3], and its gradient with respect to the weights."""
    features, positions = gather(triplets, scalars)
    scores, saved = forward(moves, features, positions, steps, sizes, flat)
    total, share = 0.0, 1 / len(scores)
    for row in range(len(scores)):
        sign, weight = (-1.0, positive_weight) if positive[row] else (1.0, 1.0)
        signed = sign * scores[row]
        small = np.exp(-abs(signed))
        total += weight * (max(signed, 0.0) + np.log1p(small))
        scores[row] = share * weight * sign * (1.0 if signed > 0 else small) / (1 + small)
    return np.float32(total * share), backward(scores, saved, moves, features, positions, steps, sizes, flat)


@njit(cache=True)
def forward(
    moves: np.ndarray,  # [2, 2, F, F] as ISDEA makes them
    features: np.ndarray,  # [P, F]
    positions: np.ndarray,  # [2B] positions of the heads, then the tails, among the pairs
    steps: np.ndarray,  # [B, 2]
    sizes: tuple[int, ...],  # T, D, hidden units of the streams, of X, of the distances, of the scorer
    flat: np.ndarray,
) -> Any:
    """Scores [B], and what `backward` needs."""
    maps, map_biases, streams, combine, distance, scorer = _unpack(flat, sizes)
    mapped, folded = _fold(moves, maps, map_biases)
    weights, biases = streams
    pairs = len(features)
    hidden = np.empty((2, 3, pairs, weights[2].shape[2]), np.float32)
    for stream in range(2):
        np.dot(features, np.dot(folded[stream], weights[0][stream]), hidden[stream, 0])
        for layer in range(3):
            if layer:
                np.dot(hidden[stream, layer - 1], weights[layer][stream], hidden[stream, layer])
            _add_row(hidden[stream, layer], biases[layer][stream])
            _tanh(hidden[stream, layer])
    states = _tanh_mlp(hidden[0, 2] + hidden[1, 2], combine)
    embedded = _tanh_mlp(steps, distance)
    rows = _read_rows(states[2], positions, embedded[2])
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
    positions: np.ndarray,
    steps: np.ndarray,
    sizes: tuple[int, ...],
    flat: np.ndarray,
) -> np.ndarray:
    """The gradient of the weights, flat."""
    maps, _, streams, combine, distance, scorer = _unpack(flat, sizes)
    found = np.empty_like(flat)
    of_maps, of_map_biases, of_streams, of_combine, of_distance, of_scorer = _unpack(found, sizes)
    mapped, folded, hidden, states, embedded, rows, first, second = saved
    over = np.ascontiguousarray(gradient).reshape(-1, 1)
    _linear_gradient(over, second, of_scorer, 2)
    over = _relu_gradient(np.dot(over, scorer[0][2]), second)
    _linear_gradient(over, first, of_scorer, 1)
    over = _relu_gradient(np.dot(over, scorer[0][1]), first)
    _linear_gradient(over, rows, of_scorer, 0)
    over = np.dot(over, scorer[0][0])
    of_states, of_embedded = _read_gradient(over, states[2], positions)
    _tanh_mlp_gradient(of_embedded, steps, embedded, distance, of_distance)
    of_sum = _tanh_mlp_gradient(of_states, hidden[0, 2] + hidden[1, 2], states, combine, of_combine)
    weights, (of_weights, of_biases) = streams[0], of_streams
    of_folded = np.empty_like(folded)
    for stream in range(2):
        over = _tanh_gradient(of_sum.copy(), hidden[stream, 2])
        for layer in (2, 1):
            _column_sums(over, of_biases[layer][stream])
            np.dot(hidden[stream, layer - 1].T, over, of_weights[layer][stream])
            over = _tanh_gradient(np.dot(over, weights[layer][stream].T), hidden[stream, layer - 1])
        _column_sums(over, of_biases[0][stream])
        of_first = np.dot(features.T, over)  # [F, hidden]
        np.dot(folded[stream].T, of_first, of_weights[0][stream])
        np.dot(of_first, weights[0][stream].T, of_folded[stream])
    _fold_gradient(of_folded, moves, mapped, maps, of_maps, of_map_biases)
    return found


@njit(cache=True)
def _unpack(flat: np.ndarray, sizes: tuple[int, ...]) -> Any:
    """Maps [T, 2, 2D, D] of a state and of what it gathers, their biases [T, 2, D], and the MLPs."""
    layers, width, hidden, states, distance, scorer = sizes
    maps, at = _take(flat, 0, layers * 2 * 2 * width, width)
    biases, at = _take(flat, at, layers * 2, width)
    streams, at = _take_streams(flat, at, (layers + 1) * width, hidden)
    combine, at = _take_mlp(flat, at, hidden, states, states)
    distances, at = _take_mlp(flat, at, 2, distance, distance)
    scores, at = _take_mlp(flat, at, 3 * states + distance, scorer, 1)
    return (
        maps.reshape(layers, 2, 2 * width, width),
        biases.reshape(layers, 2, width),
        streams,
        combine,
        distances,
        scores,
    )


@njit(cache=True)
def _take(flat: np.ndarray, at: int, rows: int, columns: int) -> Any:
    """The next matrix, and the offset after it."""
    end = at + rows * columns
    return flat[at:end].reshape(rows, columns), end


@njit(cache=True)
def _take_mlp(flat: np.ndarray, at: int, inputs: int, inner: int, outputs: int) -> Any:
    w1, at = _take(flat, at, inner, inputs)
    w2, at = _take(flat, at, inner, inner)
    w3, at = _take(flat, at, outputs, inner)
    b1, at = _take(flat, at, 1, inner)
    b2, at = _take(flat, at, 1, inner)
    b3, at = _take(flat, at, 1, outputs)
    return ((w1, w2, w3), (b1[0], b2[0], b3[0])), at


@njit(cache=True)
def _take_streams(flat: np.ndarray, at: int, inputs: int, inner: int) -> Any:
    w1, at = _take(flat, at, 2 * inputs, inner)
    w2, at = _take(flat, at, 2 * inner, inner)
    w3, at = _take(flat, at, 2 * inner, inner)
    b1, at = _take(flat, at, 2, inner)
    b2, at = _take(flat, at, 2, inner)
    b3, at = _take(flat, at, 2, inner)
    weights = (w1.reshape(2, inputs, inner), w2.reshape(2, inner, inner), w3.reshape(2, inner, inner))
    return (weights, (b1, b2, b3)), at


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
def _fold_gradient(
    gradient: np.ndarray,
    moves: np.ndarray,
    mapped: np.ndarray,
    maps: np.ndarray,
    of_maps: np.ndarray,
    of_biases: np.ndarray,
) -> None:
    layers, width = maps.shape[0], maps.shape[3]
    for stream in range(2):
        over = gradient[stream, :, layers * width :].copy()
        for layer in range(layers - 1, -1, -1):
            of_biases[layer, stream] = over[0]
            np.dot(mapped[layer, stream].T, over, of_maps[layer, stream])
            if layer:
                below = np.dot(over, maps[layer, stream].T)
                over = below[:, :width] + np.dot(moves[1, stream].T, np.ascontiguousarray(below[:, width:]))
                over += gradient[stream, :, layer * width : (layer + 1) * width]


@njit(cache=True)
def _tanh_mlp(inputs: np.ndarray, layers: MLP) -> np.ndarray:
    """The outputs of three layers of equal width: [3, rows, width]."""
    weights, biases = layers
    seen = np.empty((3, len(inputs), len(biases[0])), np.float32)
    for layer in range(3):
        np.dot(inputs if layer == 0 else seen[layer - 1], weights[layer].T, seen[layer])
        _add_row(seen[layer], biases[layer])
        _tanh(seen[layer])
    return seen


@njit(cache=True)
def _tanh_mlp_gradient(
    over: np.ndarray, inputs: np.ndarray, seen: np.ndarray, layers: MLP, gradients: MLP
) -> np.ndarray:
    """The gradient of the inputs; those of the layers are written."""
    weights, _ = layers
    over = _tanh_gradient(over, seen[2])
    _linear_gradient(over, seen[1], gradients, 2)
    over = _tanh_gradient(np.dot(over, weights[2]), seen[1])
    _linear_gradient(over, seen[0], gradients, 1)
    over = _tanh_gradient(np.dot(over, weights[1]), seen[0])
    _linear_gradient(over, inputs, gradients, 0)
    below: np.ndarray = np.dot(over, weights[0])
    return below


@njit(cache=True)
def _linear_gradient(over: np.ndarray, inputs: np.ndarray, gradients: MLP, layer: int) -> None:
    """Write the gradients of one linear map of an MLP."""
    np.dot(over.T, inputs, gradients[0][layer])
    _column_sums(over, gradients[1][layer])


@njit(cache=True)
def _read_rows(states: np.ndarray, positions: np.ndarray, embedded: np.ndarray) -> np.ndarray:
    """[X_head, X_tail, X_head * X_tail, e] of each triplet."""
    count, width = len(embedded), states.shape[1]
    rows = np.empty((count, 3 * width + embedded.shape[1]), np.float32)
    for row in range(count):
        head, tail = states[positions[row]], states[positions[count + row]]
        for unit in range(width):
            rows[row, unit] = head[unit]
            rows[row, width + unit] = tail[unit]
            rows[row, 2 * width + unit] = head[unit] * tail[unit]
        rows[row, 3 * width :] = embedded[row]
    return rows


@njit(cache=True)
def _read_gradient(over: np.ndarray, states: np.ndarray, positions: np.ndarray) -> Any:
    count, width = len(over), states.shape[1]
    of_states = np.zeros_like(states)
    for row in range(count):
        head, tail = positions[row], positions[count + row]
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
    for i in range(values.shape[0]):
        for unit in range(values.shape[1]):
            values[i, unit] += row[unit]


@njit(cache=True)
def _column_sums(values: np.ndarray, total: np.ndarray) -> None:
    total[:] = 0
    for row in range(values.shape[0]):
        for unit in range(values.shape[1]):
            total[unit] += values[row, unit]


@njit(cache=True, fastmath={"contract", "arcp", "nsz"}, error_model="numpy")
def _tanh(values: np.ndarray) -> None:
    """Take tanh in place by a rational minimax approximation, within 3e-7, that compiles to vectors; NaN stays NaN."""
    flat = values.reshape(-1)
    bound = np.float32(7.9053111)  # beyond it tanh is 1 in single precision
    for i in range(flat.size):
        x = flat[i]
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
        flat[i] = x * p / q


@njit(cache=True)
def _tanh_gradient(over: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Multiply by 1 - seen^2 in place."""
    for row in range(over.shape[0]):
        for unit in range(over.shape[1]):
            over[row, unit] *= np.float32(1) - seen[row, unit] * seen[row, unit]
    return over
