"""Records of the set: paragraphs of Wikipedia, Python functions, the documents of Lee et al.

The texts come with the gensim package, which is used for its data only and never imported; the
functions are those of the running interpreter's standard library.
"""

from __future__ import annotations

from python_source import functions
from wikipedia import articles_of_part, data_folder

Record = dict[str, str]

DOCUMENTS = "lee.cor"


def candidates() -> list[Record]:
    """Candidates for calibration, half of which are no prose: paragraphs, then functions."""
    return calibration_paragraphs() + python_functions()


def calibration_paragraphs() -> list[Record]:
    """The prose among them: records with `text` and `title`, from every third article."""
    return _paragraphs_of_part(0)


def python_functions() -> list[Record]:
    """The rest: records with the `text` of a function and its module as `title`."""
    return [{"text": text, "title": module} for module, text in functions()]


def deployment_paragraphs() -> list[Record]:
    """What stands for production: paragraphs of other articles."""
    return _paragraphs_of_part(1)


def evaluation_paragraphs() -> list[Record]:
    """What accuracy is measured on: paragraphs of yet other articles."""
    return _paragraphs_of_part(2)


def lee_documents() -> list[Record]:
    """The 50 news texts of Lee et al. (2005), in the order of their similarity matrix."""
    text = (data_folder() / DOCUMENTS).read_text(encoding="latin-1")
    return [{"text": line} for line in text.splitlines()]


def _paragraphs_of_part(part: int) -> list[Record]:
    return [
        {"text": text, "title": title} for title, texts in articles_of_part(part) for text in texts
    ]
