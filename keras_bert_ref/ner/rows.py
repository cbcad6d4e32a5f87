"""The feature-based rows of table 7: which layers, and how they are joined."""

from collections.abc import Iterable

LAST_FOUR = ("weighted_last_four", "concat_last_four")
ROWS = ("embeddings", "second_to_last", "last", *LAST_FOUR, "weighted_all")


def layers_of(row: str, num_layers: int) -> list[int]:
    """The layers of a row: 0 is the embeddings, i the output of block i."""
    needed = {"second_to_last": 2, **dict.fromkeys(LAST_FOUR, 4)}.get(row, 1)
    if num_layers < needed:
        raise ValueError(
            f"--features={row} needs {needed} layers, but the model has "
            f"{num_layers}; leave it out, or use a larger model."
        )
    return {
        "embeddings": [0],
        "second_to_last": [num_layers - 1],
        "last": [num_layers],
        "weighted_all": list(range(1, num_layers + 1)),
    }.get(row, list(range(num_layers - 3, num_layers + 1)))


def layers_of_all(rows: Iterable[str], num_layers: int) -> list[int]:
    """All layers of some rows, each once."""
    return sorted({i for row in rows for i in layers_of(row, num_layers)})


def is_weighted(row: str) -> bool:
    """Whether layers are summed, with weights that are learned."""
    return row.startswith("weighted")
