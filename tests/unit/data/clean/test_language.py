from __future__ import annotations

import pytest

from llmstack.config.clean import LanguageConfig
from llmstack.data.clean.language import Language, language_of
from tests.unit.data.clean.corpus import Writer, dropped, outcome, precision_and_recall

TEXTS = {
    "en": "Our neighbours painted their fence last weekend,\nand now every house in the street wants the same colour.",
    "de": "Unsere Nachbarn haben letztes Wochenende ihren Zaun gestrichen, und jetzt will jeder die gleiche Farbe.",
    "fr": "Nos voisins ont repeint leur clôture le week-end dernier, et maintenant toute la rue veut cette couleur.",
    "es": "Nuestros vecinos pintaron su valla el fin de semana pasado y ahora todos quieren el mismo color.",
    "it": "I nostri vicini hanno dipinto la recinzione lo scorso fine settimana e ora tutti vogliono quel colore.",
    "ru": "Наши соседи покрасили забор в прошлые выходные, и теперь все хотят такой же цвет.",
    "zh": "我们的邻居上周末粉刷了他们的围栏，现在街上的每家都想要同样的颜色。",
    "ja": "隣の家が先週末に塀を塗り替えたので、今では通りのみんなが同じ色にしたがっています。",
}


def language(text: str, **options):
    return outcome(Language(LanguageConfig(kind="language", **options), seed=0), text)


@pytest.mark.parametrize("code", sorted(TEXTS))
def test_languages_are_told_apart(code):
    found, score = language_of(TEXTS[code])
    assert (found, score > 0.65) == (code, True)
    assert language(TEXTS[code], keep=[code]).text == TEXTS[code]
    others = tuple(set(TEXTS) - {code})
    assert language(TEXTS[code], keep=others).reason == f"language {code}"


def test_what_is_no_language_is_not_kept():
    assert language("0x1f 17 22 93", keep=["en"]).reason == "no clear language"


def test_the_least_score_is_an_option():
    assert language(TEXTS["en"], keep=["en"], min_score=1.0).reason == "no clear language"
    assert language("0x1f 17 22 93", keep=[language_of("0x1f 17 22 93")[0]], min_score=0.0).text


def test_precision_and_recall_are_one_on_paragraphs():
    writer = Writer(1)
    texts = [" ".join(writer.sentences(4)) for _ in range(60)] + [text for code, text in TEXTS.items() if code != "en"]
    found = dropped([language(text, keep=["en"]) for text in texts])
    assert precision_and_recall(found, set(range(60, len(texts)))) == (1.0, 1.0)
