"""GLUE test scores of the paper (table 1) and of the release's README."""

COLUMNS = (
    ("MNLI", "accuracy"),
    ("MNLI-mm", "accuracy"),
    ("QQP", "f1"),
    ("QQP", "accuracy"),
    ("QNLI", "accuracy"),
    ("SST-2", "accuracy"),
    ("CoLA", "matthews_correlation"),
    ("STS-B", "pearson"),
    ("STS-B", "spearman"),
    ("MRPC", "f1"),
    ("MRPC", "accuracy"),
    ("RTE", "accuracy"),
    ("WNLI", "accuracy"),
)
# In percent, in the order of the columns; - where none was published.
SCORES = """
Tiny   70.2 70.3 62.2 83.4 81.5 83.2 0.0 74.3 73.6 81.1 71.1 57.2 62.3
Mini   74.8 74.3 66.4 86.2 84.1 85.9 0.0 75.4 73.3 81.1 71.8 57.9 62.3
Small  77.6 77.0 68.1 87.0 86.4 89.7 27.8 78.8 77.0 83.4 76.2 61.8 62.3
Medium 80.0 79.1 69.6 87.9 87.7 89.6 38.0 80.4 78.4 86.6 81.6 62.2 62.3
Base   84.6 83.4 71.2 - 90.5 93.5 52.1 - 85.8 88.9 - 66.4 -
Large  86.7 85.9 72.1 - 92.7 94.9 60.5 - 86.5 89.3 - 70.1 -
"""


def published_scores(task_name: str, metric: str) -> dict[str, float]:
    """Scores in percent by model, of those that were published.

    "mismatched accuracy" of MNLI is the accuracy of MNLI-mm.
    """
    if metric.startswith("mismatched "):
        task_name, metric = f"{task_name}-mm", metric.split()[-1]
    if (task_name, metric) not in COLUMNS:
        return {}
    place = COLUMNS.index((task_name, metric))
    rows = [line.split() for line in SCORES.strip().split("\n")]
    cells = {model: scores[place] for model, *scores in rows}
    return {model: float(c) for model, c in cells.items() if c != "-"}
