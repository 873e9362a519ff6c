from anykg.graph.twins import FEWEST, twins
from graphs import named

PAIRS = [(f"a{i}", f"b{i}") for i in range(FEWEST)]


def found(*lines: str) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in twins(named(*lines)).tolist()]


def test_duplicates_inverses_and_symmetry() -> None:
    same = [f"{h} likes {t}" for h, t in PAIRS] + [f"{h} loves {t}" for h, t in PAIRS[1:]] + ["x loves y"]
    assert found(*same) == [(0, 1), (1, 0)]
    inverse = [f"{h} parent {t}" for h, t in PAIRS] + [f"{t} child {h}" for h, t in PAIRS]
    assert found(*inverse) == [(0, 3), (1, 2)]
    symmetric = [f"{h} near {t}" for h, t in PAIRS] + [f"{t} near {h}" for h, t in PAIRS]
    assert found(*symmetric) == [(0, 1)]


def test_unlike_or_small_relations_do_not_count() -> None:
    assert found(*(f"{h} likes {t}" for h, t in PAIRS), *(f"{t} loves c{t}" for _, t in PAIRS)) == []
    few = PAIRS[:-1]
    assert found(*(f"{h} likes {t}" for h, t in few), *(f"{h} loves {t}" for h, t in few)) == []
    half = [f"{h} likes {t}" for h, t in PAIRS] + [f"{h} loves {t}" for h, t in PAIRS[: FEWEST // 2]]
    assert found(*half, *(f"{h} loves c{t}" for h, t in PAIRS[FEWEST // 2 :])) == []
