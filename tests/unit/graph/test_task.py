from anykg.graph.graph import KnowledgeGraph
from anykg.graph.task import Task, merge_tasks
from graphs import named


def task(name: str, whole: KnowledgeGraph, observed: KnowledgeGraph) -> Task:
    """The last fact of each graph is validated on, or asked."""

    def split(graph: KnowledgeGraph) -> tuple[KnowledgeGraph, KnowledgeGraph]:
        return graph.with_triplets(graph.triplets[:-1]), graph.with_triplets(graph.triplets[-1:])

    return Task(name, *split(whole), *split(observed))


def names(graph: KnowledgeGraph) -> set[tuple[str, ...]]:
    return set(graph.to_polars().rows())


def test_merged_by_name_and_what_is_learnt_from_is_not_asked() -> None:
    one = task("one", named("a r b", "b r c"), named("x s y", "y s z"))
    other = task("other", named("b r c", "c t d"), named("y s z", "z u w"))
    both = merge_tasks([one, other], "both")
    assert both.name == "both"
    assert names(both.train) == {("a", "r", "b"), ("b", "r", "c")}
    assert names(both.valid) == {("c", "t", "d")}  # b r c is learnt from in the other task
    assert names(both.test) == {("z", "u", "w")}
    assert both.train.entities == both.valid.entities
    assert both.observed.relations == both.test.relations
