"""Random clauses that tests share."""

from hypothesis import strategies as st

from anykg.rules.clause import Atom, Clause


@st.composite
def clauses(draw: st.DrawFn, max_entities: int = 5, max_relations: int = 3, max_atoms: int = 5) -> Clause:
    """Random valid clauses: connected or not, with heads that may be free, attributes, repeated variables."""
    attribute = draw(st.booleans())
    count, entities = draw(st.integers(0, max_atoms)), draw(st.integers(1, max_entities))
    relations = draw(st.integers(1, max_relations))
    drawn = draw(
        st.lists(
            st.tuples(st.integers(0, entities - 1), st.integers(0, relations - 1), st.integers(0, entities - 1)),
            min_size=count,
            max_size=count,
        )
    )
    # Close the gaps, so that every variable beyond the head's occurs.
    fixed = 1 if attribute else 2
    used = sorted({v for h, _, t in drawn for v in (h, t)} | set(range(fixed)))
    kinds = sorted({r for _, r, _ in drawn} | {0})
    return Clause(tuple(Atom(used.index(h), kinds.index(r), used.index(t)) for h, r, t in drawn), attribute)
