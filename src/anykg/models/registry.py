"""The models, by name. A new one is its file and a row here."""

from __future__ import annotations

from anykg.core.registry import Registry, Row

MODELS = Registry(
    "model",
    {
        "random": Row("anykg.models.random:RandomScorer", "Every score drawn at random: the floor of every table."),
        "gat": Row("anykg.models.homogeneous:GAT", "Attention over neighbours, blind to relation types."),
        "gin": Row("anykg.models.homogeneous:GIN", "Sum over neighbours and an MLP, blind to relation types."),
        "graphconv": Row("anykg.models.homogeneous:GraphConv", "Linear sum over neighbours, blind to relation types."),
        "nbfnet": Row("anykg.models.nbfnet:NBFNet", "Bellman-Ford network with a vector for each relation."),
        "ultra": Row("anykg.models.ultra:Ultra", "Bellman-Ford networks over entities and over a graph of relations."),
        "ingram": Row(
            "anykg.models.ingram:InGram",
            "Attention over a graph of relations, from random inputs; --samples averages draws.",
        ),
        "isdea+": Row("anykg.models.isdea:ISDEA", "Any GNN made double equivariant: each relation against all others."),
    },
)
