"""The models by name: built-in ones, and those that installed packages add as entry points of `anykg.models`.

A built-in model is a file and a row here. A package adds one in its pyproject.toml:

    [project.entry-points."anykg.models"]
    toy = "toy_model:ToyModel"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from anykg.errors import ConfigError, UnknownName, nearest
from anykg.plugins import entry_points, import_object, load_entry_point, search_working_directory

if TYPE_CHECKING:
    from anykg.models.base import LinkPredictor

GROUP = "anykg.models"


class Row(NamedTuple):
    """A built-in model."""

    path: str
    """`module:class`, imported when the model is first used."""
    summary: str


class ModelRegistry:
    """Model classes by name; a name that is not registered may be `module:class`."""

    def __init__(self, rows: dict[str, Row]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[str]:
        """Names of the built-in models."""
        return iter(self.rows)

    def __contains__(self, name: str) -> bool:
        """Whether a name is registered, by anykg or by an installed package."""
        return name in self.rows or name in entry_points(GROUP)

    def summaries(self) -> dict[str, str]:
        """One sentence for each model, including those of installed packages, which are not imported for this."""
        own = {name: row.summary for name, row in self.rows.items()}
        return own | {
            name: f"From the package {point.dist.name if point.dist else point.module}."
            for name, point in sorted(entry_points(GROUP).items())
            if name not in own
        }

    def load(self, name: str, *, trust: bool = False) -> type[LinkPredictor]:
        """The class of the model called `name`, or at the import path `name`.

        Built-in names win over those of packages. `trust` lets modules be imported from the working directory.
        """
        from anykg.models.base import LinkPredictor  # imports torch, which the names alone do not need

        if trust:
            search_working_directory()
        if name in self.rows:
            model_class = import_object(self.rows[name].path)
        elif name in (added := entry_points(GROUP)):
            model_class = load_entry_point(added[name])
        elif ":" in name:
            model_class = import_object(name)
        else:
            raise UnknownName("model", name, nearest(name, [*self.rows, *added]))
        if not (isinstance(model_class, type) and issubclass(model_class, LinkPredictor)):
            raise ConfigError(f"{name}: expected a subclass of anykg.LinkPredictor, found {model_class!r}.")
        return model_class


MODELS = ModelRegistry(
    {
        "popularity": Row(
            "anykg.models.floors:Popularity", "How often entities occur at an end of a relation: a baseline."
        ),
        "degree": Row("anykg.models.floors:Degree", "How many facts entities take part in: a baseline."),
        "pagerank": Row("anykg.models.floors:PageRank", "Random walks from the entity of the question: a baseline."),
        "random": Row("anykg.models.random:RandomScorer", "Random scores: the lowest baseline."),
        "gat": Row("anykg.models.homogeneous:GAT", "Attention over neighbours; ignores relation types."),
        "gin": Row("anykg.models.homogeneous:GIN", "Sum over neighbours and an MLP; ignores relation types."),
        "graphconv": Row("anykg.models.homogeneous:GraphConv", "Linear sum over neighbours; ignores relation types."),
        "nbfnet": Row("anykg.models.nbf.nbfnet:NBFNet", "Bellman-Ford network with one vector per relation."),
        "rmpi": Row(
            "anykg.models.rmpi.rmpi:RMPI",
            "Message passing between the triplets around a candidate, over six kinds of links.",
        ),
        "ultra": Row(
            "anykg.models.nbf.ultra:Ultra", "Bellman-Ford networks over entities and over a graph of relations."
        ),
        "trix": Row(
            "anykg.models.nbf.trix:TRIX", "Relations and entities that refine each other; scores relations in one pass."
        ),
        "ingram": Row(
            "anykg.models.ingram.ingram:InGram",
            "Attention over a graph of relations, from random inputs; can average several samples.",
        ),
        "isdea+": Row(
            "anykg.models.isdea.isdea:ISDEA", "Makes any GNN double equivariant: each relation against all others."
        ),
        "isdea+ pairs": Row(
            "anykg.models.isdea.pairwise:PairwiseISDEA", "ISDEA+ over pairs of entities: a Bellman-Ford network."
        ),
        "complex": Row(
            "anykg.models.complex.complex:ComplEx",
            "One complex vector per name, fitted to one graph.",
        ),
        "mixture": Row("anykg.models.mixture:Mixture", "A weighted mixture of other models, made by `anykg fit`."),
        "schema": Row(
            "anykg.models.schema:SchemaModel",
            "Whether entities and directions fit a relation; a component of mixtures.",
        ),
        "rulebook": Row(
            "anykg.models.rulebook:Rulebook", "Rules with named relations and entities, mined on one graph."
        ),
        "uqer": Row("anykg.models.uqer:UQER", "Weighted clauses over any entities and relations; readable scores."),
    },
)
