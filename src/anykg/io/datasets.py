"""The catalog of public benchmarks: location, content and intended use of each.

A row is plain data. `prefix` is a prefix below the data directory and `source` the matching public prefix, so that
each file of the layout is `prefix + suffix` here and `source + suffix` there; a source ending in .tar.gz is an archive
with the files inside. Every address is pinned to a commit or a release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Layout = Literal["inductive", "transductive", "graph"]

SUFFIXES: dict[Layout, tuple[str, ...]] = {
    "inductive": (
        *(f"-trans/{name}" for name in ("train.txt", "valid.txt", "entities.dict", "relations.dict")),
        *(f"-ind/{name}" for name in ("observe.txt", "test.txt", "entities.dict", "relations.dict")),
    ),
    "transductive": ("/train.txt", "/valid.txt", "/test.txt"),
    "graph": ("",),
}
"""The files of a layout, appended to `prefix` and `source`."""


class Size(NamedTuple):
    """The published size of the inference graph; for a transductive one, with the nodes of all its files."""

    nodes: int
    relations: int
    observed: int
    query: int


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One row of the catalog."""

    name: str
    family: str
    layout: Layout
    prefix: str
    """Prefix of its files below the data directory; for the family `embedded`, the file inside the package."""
    source: str = ""
    """Public address of its files: a prefix, or a .tar.gz; empty if there is none."""
    size: Size | None
    """None if it is not published."""
    licence: str
    citation: str
    notes: str
    """How it is commonly used, and caveats."""
    parts: tuple[Dataset, ...] = ()
    """The datasets a mixture is merged from; it has no files of its own."""

    @property
    def files(self) -> tuple[str, ...]:
        """Its files, below the data directory."""
        if self.parts:
            return tuple(file for part in self.parts for file in part.files)
        return tuple(self.prefix + suffix for suffix in SUFFIXES[self.layout])

    @property
    def is_archive(self) -> bool:
        """Whether it is distributed as one .tar.gz."""
        return self.source.endswith(".tar.gz")


ISDEA_PLUS = "https://raw.githubusercontent.com/yuchengz99/ISDEA_PLUS/e853a3d360979cb9ec8476b090c2175a15494567/data"
CONVE = "https://github.com/TimDettmers/ConvE/raw/f3c0eb286025410fa5b4c04696c918264163d0ca"
CODEX = "https://raw.githubusercontent.com/tsafavi/codex/3132e426c2a6b643b70bad679905a3a6270be440/data/triples"
PYKEEN = "https://raw.githubusercontent.com/pykeen/pykeen/v1.11.1/src/pykeen/datasets"

DOUBLE_EQUIVARIANCE = (
    "Zhou et al., Double Equivariance for Inductive Link Prediction for Both New Nodes and New Relation Types"
)


def _pediatypes(name: str, *size: int) -> Dataset:
    first, second = name.split("-")
    prefix = f"PediaTypes/{first}2{second}-15K-V2"
    return Dataset(
        name=name,
        family="PediaTypes",
        layout="inductive",
        prefix=prefix,
        source=f"{ISDEA_PLUS}/{prefix}",
        size=Size(*size),
        licence="MIT (release), sampled from OpenEA (GPL-3.0)",
        citation=DOUBLE_EQUIVARIANCE,
        notes=f"Train on {first}, infer on {second}, which is the training graph of {second}-{first}: a model trained "
        "on both directions has seen every graph.",
    )


def _wikitopics(topic: str, *size: int) -> Dataset:
    prefix = f"WikiTopics/wikidata_{topic}v2"
    return Dataset(
        name=f"wikitopics:{topic}",
        family="WikiTopics",
        layout="inductive",
        prefix=prefix,
        source=f"{ISDEA_PLUS}/{prefix}",
        size=Size(*size),
        licence="MIT (release), from Wikidata5M (CC0 1.0)",
        citation=DOUBLE_EQUIVARIANCE,
        notes="The two graphs of a topic share relations and some entities, so zero-shot means another topic.",
    )


def _mixture(*topics: str) -> Dataset:
    """Topics merged into one graph, as in the public folders WikiTopics-MetaLearn."""
    parts = tuple(row for topic in topics for row in _TOPICS if row.name == f"wikitopics:{topic}")
    return Dataset(
        name=f"wikitopics:{'+'.join(topics)}",
        family="WikiTopics mixtures",
        layout="inductive",
        prefix="WikiTopics",
        size=None,
        licence=parts[0].licence,
        citation=DOUBLE_EQUIVARIANCE,
        notes="Merged by the names of entities and relations from the graphs of its topics.",
        parts=parts,
    )


def _transductive(folder: str, source: str, *size: int, licence: str, citation: str, notes: str = "") -> Dataset:
    return Dataset(
        name=folder.lower(),
        family="transductive",
        layout="transductive",
        prefix=f"transductive/{folder}",
        source=source,
        size=Size(*size),
        licence=licence,
        citation=citation,
        notes=notes or "The facts of train.txt are observed, those of test.txt are predicted.",
    )


_TOPICS = (
    _wikitopics("art", 10000, 45, 28023, 3113),
    _wikitopics("award", 10000, 10, 25056, 2783),
    _wikitopics("edu", 10000, 15, 14193, 1575),
    _wikitopics("health", 10000, 20, 15337, 1703),
    _wikitopics("infra", 10000, 27, 21646, 2405),
    _wikitopics("loc", 10000, 35, 80269, 8918),
    _wikitopics("org", 10000, 18, 30214, 3357),
    _wikitopics("people", 10000, 25, 58530, 6503),
    _wikitopics("sci", 10000, 42, 12516, 1388),
    _wikitopics("sport", 10000, 20, 46717, 5190),
    _wikitopics("tax", 10000, 31, 19416, 2157),
)
MIXTURES = (
    ("infra", "sci"),
    ("infra", "sci", "sport"),
    ("infra", "sci", "sport", "tax"),
    ("infra", "loc"),
    ("infra", "sci", "loc"),
    ("infra", "sci", "sport", "loc"),
    ("award", "edu"),
    ("award", "edu", "tax"),
    ("award", "edu", "tax", "sport"),
    ("sport", "infra"),
    ("sport", "infra", "edu"),
    ("sport", "infra", "edu", "health"),
    ("art", "award"),
    ("art", "award", "health"),
    ("art", "award", "health", "infra"),
    ("health", "sport"),
    ("health", "sport", "tax"),
    ("health", "sport", "tax", "art"),
)
"""Mixtures of topics: the paper's (the first six) and those of the public release (all but the three with loc)."""

DATASETS: tuple[Dataset, ...] = (
    _pediatypes("EN-FR", 4933, 101, 24165, 2485),
    _pediatypes("FR-EN", 4962, 122, 30876, 3305),
    _pediatypes("EN-DE", 4915, 67, 29011, 3100),
    _pediatypes("DE-EN", 4890, 121, 25177, 2620),
    _pediatypes("DB-WD", 4948, 102, 23888, 2456),
    _pediatypes("WD-DB", 4906, 144, 17593, 1641),
    _pediatypes("DB-YG", 4751, 17, 11327, 973),
    _pediatypes("YG-DB", 4795, 64, 13248, 1161),
    *_TOPICS,
    *(_mixture(*topics) for topics in MIXTURES),
    _transductive(
        "FB15k-237",
        f"{CONVE}/FB15k-237.tar.gz",
        *(14541, 237, 272115, 20466),
        licence="CC BY 2.5 (Freebase)",
        citation="Toutanova and Chen, Observed versus Latent Features, 2015",
        notes="29 entities of test.txt have no fact in train.txt; they are ranked nevertheless.",
    ),
    _transductive(
        "WN18RR",
        f"{CONVE}/WN18RR.tar.gz",
        *(40943, 11, 86835, 3134),
        licence="WordNet licence",
        citation="Dettmers et al., Convolutional 2D Knowledge Graph Embeddings, 2018",
        notes="209 entities of test.txt have no fact in train.txt; they are ranked nevertheless.",
    ),
    _transductive(
        "NELL-995",
        "",
        *(74536, 200, 149678, 2818),
        licence="not stated",
        citation="Xiong et al., DeepPath, 2017",
        notes="Several versions are in circulation; this one has 149,678 facts in train.txt.",
    ),
    _transductive(
        "YAGO3-10",
        f"{CONVE}/YAGO3-10.tar.gz",
        *(123182, 37, 1079040, 5000),
        licence="CC BY 3.0 (YAGO3)",
        citation="Dettmers et al., Convolutional 2D Knowledge Graph Embeddings, 2018",
    ),
    _transductive(
        "CoDEx-S",
        f"{CODEX}/codex-s",
        *(2034, 42, 32888, 1828),
        licence="MIT",
        citation="Safavi and Koutra, CoDEx, 2020",
    ),
    _transductive(
        "CoDEx-M",
        f"{CODEX}/codex-m",
        *(17050, 51, 185584, 10311),
        licence="MIT",
        citation="Safavi and Koutra, CoDEx, 2020",
    ),
    _transductive(
        "UMLS",
        f"{PYKEEN}/umls",
        *(135, 46, 5216, 661),
        licence="as released with PyKEEN (MIT)",
        citation="Kok and Domingos, Statistical Predicate Invention, 2007",
    ),
    _transductive(
        "Kinship",
        f"{PYKEEN}/kinships",
        *(104, 25, 8544, 1074),
        licence="as released with PyKEEN (MIT)",
        citation="Kemp et al., Learning Systems of Concepts with an Infinite Relational Model, 2006",
    ),
    _transductive(
        "Nations",
        f"{PYKEEN}/nations",
        *(14, 55, 1592, 201),
        licence="as released with PyKEEN (MIT)",
        citation="Kok and Domingos, Statistical Predicate Invention, 2007",
    ),
    Dataset(
        name="atlas",
        family="embedded",
        layout="graph",
        prefix="embedded/atlas.tsv.gz",
        size=Size(1095, 16, 3556, 444),
        licence="ODbL-1.0; see ATLAS.md next to it",
        citation="mledoze/countries and Unicode CLDR",
        notes="One graph; a random tenth of its facts (seed 0) is for validation and a tenth for testing.",
    ),
)
