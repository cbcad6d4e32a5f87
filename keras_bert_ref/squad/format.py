"""The format of SQuAD's files, checked before anything else looks at them."""

import reprlib
from collections.abc import Iterator
from typing import Any, NamedTuple


class Key(NamedTuple):
    """What an object has under a name."""

    name: str
    types: type | tuple[type, ...]
    in_words: str
    is_optional: bool = False


ARTICLE = (Key("paragraphs", list, "a list"),)
PARAGRAPH = (Key("context", str, "text"), Key("qas", list, "a list"))
QUESTION = (
    Key("id", (str, int), "text"),
    Key("question", str, "text"),
    Key("answers", list, "a list", is_optional=True),
    Key("is_impossible", bool, "true or false", is_optional=True),
)
ANSWER = (
    Key("text", str, "text"),
    Key("answer_start", int, "a whole number", is_optional=True),
)


def check_articles(articles: Any, source: str) -> None:
    """Refuses what is not in SQuAD's format, saying where it stands.

    Args:
        articles: the `data` of a file.
        source: where they come from, for messages.
    """
    if not isinstance(articles, list):
        raise ValueError(
            f"In SQuAD's format `data` is a list of articles, but {source} has "
            f"{reprlib.repr(articles)} there; check the file."
        )
    for article, place in _objects(articles, "data", ARTICLE, source):
        path = f"{place}.paragraphs"
        for paragraph, place in _objects(
            article["paragraphs"], path, PARAGRAPH, source
        ):
            path = f"{place}.qas"
            for question, _ in _objects(
                paragraph["qas"], path, QUESTION, source
            ):
                path = f"question {question['id']}: answers"
                answers = question.get("answers", [])
                list(_objects(answers, path, ANSWER, source))


def _objects(
    values: list, path: str, keys: tuple[Key, ...], source: str
) -> Iterator[tuple[dict, str]]:
    """Yields the objects of a list that have these keys, with their places."""
    for index, value in enumerate(values):
        place = f"{path}[{index}]"
        if not isinstance(value, dict):
            raise _error(place, "an object", value, source)
        for key in keys:
            found = value.get(key.name)
            if key.name not in value:
                if key.is_optional:
                    continue
                raise ValueError(
                    f"SQuAD's format needs a `{key.name}` in {place}, but "
                    f"{source} has none there; check the file."
                )
            # Python takes true for a number.
            is_bool = isinstance(found, bool)
            if is_bool != (key.types is bool) or not isinstance(
                found, key.types
            ):
                raise _error(
                    _name(place, value, key), key.in_words, found, source
                )
        yield value, place


def _name(place: str, value: dict, key: Key) -> str:
    """A question goes by its id, where that is known."""
    if isinstance(value.get("id"), str) and key.name != "id":
        place = f"question {value['id']}"
    return f"{place}: {key.name}"


def _error(place: str, wanted: str, found: Any, source: str) -> ValueError:
    return ValueError(
        f"In SQuAD's format this must be {wanted}, but {source} has "
        f"{reprlib.repr(found)} at {place}; check the file."
    )
