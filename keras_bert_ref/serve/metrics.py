"""Counters of a server, in the text format of Prometheus."""

import bisect
import collections

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts requests by status, and how long they took."""

    def __init__(self):
        self.requests = collections.Counter()
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, status: int, seconds: float) -> None:
        self.requests[status] += 1
        self.buckets[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def write(self, rows: int, batches: int) -> str:
        """All metrics.

        Args:
            rows: texts that were answered.
            batches: in how many batches.
        """
        lines = ["# TYPE bert_requests_total counter"]
        for status, count in sorted(self.requests.items()):
            lines.append(f'bert_requests_total{{code="{status}"}} {count}')
        lines.append("# TYPE bert_request_seconds histogram")
        total = 0
        for bound, count in zip((*BOUNDS, "+Inf"), self.buckets, strict=True):
            total += count
            lines.append(f'bert_request_seconds_bucket{{le="{bound}"}} {total}')
        lines += [
            f"bert_request_seconds_sum {self.seconds:.6f}",
            f"bert_request_seconds_count {total}",
            "# TYPE bert_rows_total counter",
            f"bert_rows_total {rows}",
            "# TYPE bert_batches_total counter",
            f"bert_batches_total {batches}",
        ]
        return "\n".join(lines) + "\n"
