"""The models, by name. A new one is its file and a row here."""

from __future__ import annotations

from typing import Any

from anykg.errors import ConfigError
from anykg.models.base import LinkPredictor
from anykg.registry import Registry, Row


class ModelRegistry(Registry):
    """A registry whose objects keep the model contract."""

    def load(self, name: str) -> Any:
        """The model class called `name`, or at the import path `name`."""
        found = super().load(name)
        if not (isinstance(found, type) and issubclass(found, LinkPredictor)):
            raise ConfigError(f"{name}: expected a subclass of anykg.LinkPredictor, found {found!r}.")
        return found


MODELS = ModelRegistry(
    "model",
    {
        "random": Row("anykg.models.random:RandomScorer", "Every score drawn at random: the floor of every table."),
        "popularity": Row("anykg.models.floors:Popularity", "How often entities end facts of a relation: a floor."),
        "pagerank": Row("anykg.models.floors:PageRank", "Random walks from the entity asked about: a floor."),
        "gat": Row("anykg.models.homogeneous:GAT", "Attention over neighbours, blind to relation types."),
        "gin": Row("anykg.models.homogeneous:GIN", "Sum over neighbours and an MLP, blind to relation types."),
        "graphconv": Row("anykg.models.homogeneous:GraphConv", "Linear sum over neighbours, blind to relation types."),
        "nbfnet": Row("anykg.models.nbf.nbfnet:NBFNet", "Bellman-Ford network with a vector for each relation."),
        "rmpi": Row(
            "anykg.models.rmpi.rmpi:RMPI", "Messages between the triplets around a candidate, by six kinds of links."
        ),
        "ultra": Row(
            "anykg.models.nbf.ultra:Ultra", "Bellman-Ford networks over entities and over a graph of relations."
        ),
        "ingram": Row(
            "anykg.models.ingram.ingram:InGram",
            "Attention over a graph of relations, from random inputs; --samples averages draws.",
        ),
        "isdea+": Row(
            "anykg.models.isdea.isdea:ISDEA", "Any GNN made double equivariant: each relation against all others."
        ),
        "complex": Row(
            "anykg.models.complex.complex:ComplEx",
            "A complex vector for each name, fitted to one graph.",
        ),
        "mixture": Row("anykg.models.mixture:Mixture", "A weighted mix of other models, as `anykg fit` makes it."),
        "uqer": Row("anykg.models.uqer:UQER", "Weighted clauses over any entities and relations; scores can be read."),
        "schema": Row("anykg.models.schema:SchemaModel", "Which entities and directions fit a relation; a feature."),
        "rulebook": Row(
            "anykg.models.rulebook:Rulebook", "Rules with named relations and entities, mined on one graph."
        ),
    },
)
