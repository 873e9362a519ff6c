"""Find the columns of head, relation and tail in a table, by the user's choice or by the names in a header.

Column names are compared in lower case, with punctuation as underscores. If there are `X_id` and `X_name`, the first is
the name of an entity and the second its label.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from anykg.errors import ConfigError, DataError, UnknownName, nearest

UNTYPED = "related to"
"""The relation of links that have no type."""

PAIRS = (
    ("head", "tail"), ("subject", "object"), ("subj", "obj"), ("node1", "node2"), ("node_1", "node_2"),
    ("entity1", "entity2"), ("entity_1", "entity_2"), ("start", "end"), ("start_node", "end_node"), ("x", "y"),
    ("source", "target"), ("source_node", "target_node"), ("src", "dst"), ("src", "dest"), ("source", "destination"),
    ("from", "to"), ("from_node", "to_node"), ("fromnode", "tonode"), ("arg1", "arg2"), ("e1", "e2"), ("h", "t"),
    ("s", "o"), ("citing", "cited"), ("follower", "followee"),
)  # fmt: skip
"""Words for the columns of heads and tails, most specific first."""
RELATIONS = (
    "relation", "predicate", "relationship", "rel", "property", "relation_type", "relationship_type", "edge_type",
    "rel_type", "link_type", "type", "edge", "edge_label", "label", "interaction", "interaction_type", "verb", "link",
    "role", "r", "p",
)  # fmt: skip
"""Words for the column of relations, most specific first."""
MEASURES = frozenset({
    "weight", "score", "count", "confidence", "timestamp", "time", "date", "year", "rating", "ratings", "value",
    "frequency", "freq", "probability", "prob", "distance", "similarity", "sim", "p_value", "pvalue", "strength",
    "amount", "quantity", "cost", "rank", "unixtime",
})  # fmt: skip
"""Words for columns that measure a link instead of naming its type."""
PROPERTIES = frozenset({
    "id", "name", "label", "title", "description", "category", "type", "labels", "node", "nodes", "entity", "key",
    "iri", "uri", "n_id", "node_id", "entity_id", "display_name", "properties",
})  # fmt: skip
"""Words for the columns of a list of nodes."""
THINGS = frozenset({
    "person", "company", "role", "user", "item", "movie", "film", "book", "author", "country", "city", "product",
    "drug", "disease", "gene", "protein", "actor", "director", "team", "player", "organization", "organisation",
    "employer", "employee", "student", "teacher", "course", "department", "parent", "child", "friend", "artist",
    "album", "song", "paper", "venue", "customer", "supplier", "place", "event", "group", "member", "owner", "userid",
    "movieid", "itemid", "user_id", "movie_id", "item_id", "product_id",
})  # fmt: skip
"""Further words that suggest a header: each is more likely the name of a column than of an entity."""

GRAPHRAG_TABLES = ("relationships.parquet", "create_final_relationships.parquet")

_IDS = ("", "index", "id", "idx", "iri", "uri", "curie", "key", "node_id", "nodeid")
_LABELS = ("name", "label", "title")
NEO4J = re.compile(r"^(?P<name>[^:]*):(?P<kind>ID|START_ID|END_ID|TYPE|LABEL)(?:\((?P<space>.*)\))?$")
_LETTERS = re.compile(r"[A-Z]{1,2}")


class Roles(NamedTuple):
    """Positions of the columns that are read."""

    head: int
    relation: int | None
    """None if all links have one type."""
    tail: int
    labels: tuple[int | None, int | None, int | None] = (None, None, None)
    """Columns with labels of head, relation and tail."""
    spaces: tuple[str, str] = ("", "")
    """The id spaces of heads and tails, in neo4j-admin's headers."""
    unclear: bool = False
    """Whether several columns could be the relation."""

    def letters(self, width: int) -> str:
        """The role of each of `width` columns: h, r, t, or _ for one that is not read."""
        held = {self.head: "h", self.relation: "r", self.tail: "t"}
        return "".join(held.get(index, "_") for index in range(width))

    def used(self) -> list[int]:
        """The positions that are read."""
        positions = (self.head, self.relation, self.tail, *self.labels)
        return sorted({index for index in positions if index is not None})


def plain(name: str) -> str:
    """Normalise a column name for comparison.

    >>> plain(" #Subject ID"), plain(":START_ID(Person)"), plain("fromNodeId")
    ('subject_id', 'start_id', 'from_node_id')
    """
    name = NEO4J.sub(lambda m: m["kind"] if m["kind"] != "ID" else m["name"] or "id", name.strip())
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")


TELLING = frozenset({word for pair in PAIRS[:9] for word in pair if len(word) > 3} | {*RELATIONS[:3], "edge_type"})
"""Words that are almost certainly column names."""


def by_header(names: Sequence[str]) -> Roles | None:
    """Roles from the names of columns; None unless heads and tails are recognised.

    Of three columns, an unrecognised one is the relation if the others are whole words.

    >>> by_header(["id", "Subject", "Object", "predicate"]).letters(4)
    '_htr'
    >>> by_header([":START_ID", ":END_ID", "what"]).letters(3)
    'htr'
    """
    words = [plain(name) for name in names]
    ends = _ends(words)
    if ends is None:
        return _by_relation(words)
    (head, head_label), (tail, tail_label) = ends
    if min(len(words[head]), len(words[tail])) == 1 and not set(RELATIONS) & set(words):
        return None  # single letters count as column names only if all are present
    used = {head, tail, head_label, tail_label}
    first = "predicate" if words[head].startswith("subj") else "relation"
    relation, relation_label = _relation(words, used, first)
    left = [index for index in range(len(words)) if index not in used]
    unclear = False
    if relation is None and left:
        naming = [index for index in left if words[index] not in MEASURES]
        if len(words) == 3 and naming:
            relation = naming[0]
        else:
            unclear = bool(naming)
    spaces = [m["space"] or "" if (m := NEO4J.match(names[i].strip())) else "" for i in (head, tail)]
    labels = (head_label, relation_label, tail_label)
    return Roles(head, relation, tail, labels, (spaces[0], spaces[1]), unclear)


def by_choice(text: str, names: Sequence[str] | None, width: int, relation: str | None, path: object) -> Roles:
    """Roles as the user gave them: by position such as "hrt", or comma-separated names, letters or numbers."""
    if "," not in text and set(text) <= set("hrt_"):
        return _by_letters(text, width, relation, path)
    parts = [part.strip() for part in text.split(",")]
    kept = [part for part in parts if part not in ("", "_")]
    if len(kept) == 3 and relation is None:
        head, kind, tail = (_position(part, names, width, path) for part in kept)
        return Roles(head, kind, tail)
    if len(kept) == 2:
        head, tail = (_position(part, names, width, path) for part in kept)
        return Roles(head, None, tail)
    if len(kept) == 3:
        raise ConfigError(f"columns: with relation {relation!r} expected two columns, head and tail; found {text!r}.")
    raise ConfigError(
        f"Expected columns to name h, r and t once each, with _ for a column to skip, as in 'hrt' or 'h_tr', or to be "
        f"names of columns for head, relation and tail, as in 'person,role,company'; found {text!r}."
    )


def check_choice(text: str) -> None:
    """Check that letters are h, r and t once each, or h and t; names can only be checked against a file."""
    if "," in text or not set(text) <= set("hrt_"):
        if "," not in text:
            by_choice(text, None, 0, None, "")
        return
    if sorted(text.replace("_", "")) not in (["h", "r", "t"], ["h", "t"]):
        raise ConfigError(
            f"Expected columns to name h, r and t once each, with _ for a column to skip, as in 'hrt' or 'h_tr', or to "
            f"be names of columns for head, relation and tail, as in 'person,role,company'; found {text!r}."
        )


def question(path: object, names: Sequence[str], *, why: str = "") -> DataError:
    """An error that asks for the roles of columns and names the options that set them."""
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    words = {plain(name) for name in names}
    if len(words & PROPERTIES) * 2 >= len(words) or any(":ID" in name for name in names):
        return DataError(
            f"{path}: this looks like a list of nodes (columns {shown}), not of links; give the file of links, and "
            "this one with `labels`; or say which columns are head, relation and tail with `columns`."
        )
    doubt = f"{path}: {why or 'it is unclear which columns are head, relation and tail'} (columns {shown})"
    candidates = [name for name in names if plain(name) not in MEASURES | {"id"}]
    candidates = candidates if len(candidates) > 1 else list(names)
    pair = f"columns='{','.join(candidates[:2])}', relation='NAME' if all rows are of one relation"
    if len(names) < 2:
        return DataError(f"{doubt}; expected at least a column of heads and one of tails.")
    if len(names) == 2:
        return DataError(f"{doubt}; give {pair}.")
    three = ",".join(candidates[:3] if len(candidates) > 2 else names[:3])
    return DataError(f"{doubt}; name them with columns='{three}', or give {pair}.")


def _ends(words: Sequence[str]) -> tuple[tuple[int, int | None], tuple[int, int | None]] | None:
    """Columns of heads and of tails, each with that of its labels."""
    for first, second in PAIRS:
        head, tail = _variants(words, first), _variants(words, second)
        if head is not None and tail is not None and head[0] != tail[0]:
            return head, tail
    return None


def _variants(words: Sequence[str], base: str) -> tuple[int, int | None] | None:
    """The column called `base`, or `base_id` and so on, and that of its labels."""
    ids = [_joined(base, suffix) for suffix in _IDS]
    labels = [_joined(base, suffix) for suffix in _LABELS] if len(base) > 1 or base in "xy" else []
    name = next((words.index(word) for word in ids if word in words), None)
    label = next((words.index(word) for word in labels if word in words), None)
    if len(base) == 1 and base in "xy" and name is not None and words[name] == base:
        return None  # coordinates
    if name is None:
        return None if label is None else (label, None)
    return name, label


def _joined(base: str, suffix: str) -> str:
    return f"{base}_{suffix}" if suffix else base


def _relation(words: Sequence[str], used: set[int | None], first: str = "relation") -> tuple[int | None, int | None]:
    """The column of relations, and that of their labels; `first` is the word to look for before others."""
    free = [word if index not in used else "" for index, word in enumerate(words)]
    for base in (first, *RELATIONS):
        variant = _variants(free, base)
        if variant is not None:
            return variant
    return None, None


def _by_relation(words: Sequence[str]) -> Roles | None:
    """Of three columns with a known relation, the others are head and tail in order, if they hold entities."""
    if len(words) != 3 or len(set(words) & THINGS) < 2:
        return None
    relation, _ = _relation(words, set())
    if relation is None:
        return None
    head, tail = (index for index in range(3) if index != relation)
    return None if words[head] in MEASURES or words[tail] in MEASURES else Roles(head, relation, tail)


def _by_letters(text: str, width: int, relation: str | None, path: object) -> Roles:
    check_choice(text)
    if "r" in text and relation is not None:
        raise ConfigError(
            f"columns: {text!r} names a column of relations, but relation {relation!r} was given as well; use _ for it."
        )
    if width and len(text) != width:
        raise DataError(
            f"{path}: expected {len(text)} columns by columns='{text}', found {width}; use _ for a column to skip."
        )
    return Roles(text.index("h"), text.index("r") if "r" in text else None, text.index("t"))


def _position(part: str, names: Sequence[str] | None, width: int, path: object) -> int:
    """The position of a column given by its name, its letter as in a spreadsheet, or its number from 1."""
    if names is not None:
        if part in names:
            return list(names).index(part)
        same = [index for index, name in enumerate(names) if plain(name) == plain(part) and plain(part)]
        if len(same) == 1:
            return same[0]
    if part.isdigit():
        index = int(part) - 1
    elif _LETTERS.fullmatch(part):
        index = -1
        for letter in part:
            index = (index + 1) * 26 + ord(letter) - ord("A")
    else:
        if names is None:
            raise ConfigError(f"{path}: the columns have no names here; use columns='hrt', letters (A,B,C) or numbers.")
        shown = ", ".join(names[:12])
        raise UnknownName(f"column (there are {shown})", part, nearest(part, names))
    if not 0 <= index < width:
        raise DataError(f"{path}: there is no column {part}; it has {width}.")
    return index
