"""The words of links, and the phrases in them that say nothing of where they lead (BINGO 3.4: extended stop words).

Feature spaces: evidence seen in one way, as a sparse vector (BINGO 3.4).

Every feature is a 64-bit number, and the number tells the kind, so that spaces can be combined:

    terms        0 ... 2^32 - 1     the hash code of a stem
    anchors      stem + 2^32        a stem in the words of a link that points here
    neighbours   stem + 2 * 2^32    a stem of a page that links here or is linked to
    pairs        2^63 and above     two stems that stand close together

A space is a plug-in: a class with the attributes and methods of `Space`, registered under the name that the setting
`classify.spaces` takes. Numbers from 16 * 2^32 to 2^63 are free for the spaces of others. Names joined by + are the
combination of those spaces, as in `terms+anchors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from opilio.analyze.terms import term_ids
from opilio.errors import SettingsError
from opilio.features.evidence import Evidence
from opilio.registry import Registry
from opilio.settings import ClassifySettings

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.features.evidence import Stems

    Ids = npt.NDArray[np.uint64]
    Values = npt.NDArray[np.float64]

MAX_ANCHOR_WORDS = 5000

# Whole links only, and only what leads around a site, not what might name a subject ("history", "jobs", "privacy").
_ENGLISH = """
    click, click here, click on this, click for more, click this link, press here, follow this link, tap here
    here, this, this one, this page, this site, this website, this link, this article, that page
    link, links, permalink, permanent link, direct link, external link, related links, useful links, quick links
    read more, read on, read it, read this, read article, read the article, read full article, read the rest, full text
    continue, continue reading, keep reading, learn more, find out more, see more, show more, view more, load more
    more, more info, more information, more details, details, info, information, view, view all, see all, show all
    all, full story, full article, full version, full screen, visit, visit site, visit website, visit page, go, open
    home, homepage, home page, main page, main menu, start, start page, front page, index, contents
    table of contents, toc, top, back to top, to top, top of page, go to top, up, bottom, overview, menu, navigation
    next, next page, next article, next post, next chapter, next section, next topic, next slide, next entry
    previous, prev, previous page, previous article, previous post, previous chapter, previous section, previous topic
    previous slide, previous entry, older, older posts, older entries, newer, newer posts, newer entries, last
    last page, first, first page, back, go back, forward, return, return home, page, pages, part, chapter, section
    skip, skip to content, skip to main content, skip navigation, jump to content, jump to navigation
    download, downloads, download now, download here, download pdf, download file, free download, get it, pdf, html
    html version, pdf version, text version, ps, doc, zip, abstract, save, print, print this page, print version
    printable version, printer friendly, printer friendly version, email, e-mail, mail, email this, email us
    send to a friend, share, share this, share on facebook, share on twitter, tweet, facebook, twitter, linkedin
    instagram, youtube, rss, rss feed, atom feed, feed, follow us, subscribe, newsletter
    contact, contact us, contacts, feedback, about, about us, about this site, who we are, help, faq
    site map, sitemap, search, advanced search, search results, privacy policy, privacy notice, cookie policy
    cookie settings, terms of use, terms of service, terms and conditions, legal notice, disclaimer
    all rights reserved, imprint, impressum, login, log in, logout, log out, sign in, sign up, sign out, register
    join, join now, account, my account, cart, shopping cart, add to cart, buy now, order now, checkout
    comment, comments, leave a comment, no comments, post a comment, reply, edit, edit this page, edit source
    view source, image, thumbnail, untitled, document, file, www, http, https, website, web site
    yes, no, ok, close, cancel, accept, submit, reset
"""

_OTHERS = {
    "de": """
    hier, hier klicken, klicken sie hier, klick, mehr, mehr lesen, mehr erfahren, mehr dazu, mehr infos
    mehr informationen, weiterlesen, weiter lesen, lesen sie mehr, weiter, weitere informationen, zum artikel, zur seite
    startseite, home, zur startseite, hauptseite, zurück, zurück zur startseite, nach oben, seitenanfang, vor, nächste
    nächste seite, vorherige, vorherige seite, letzte, erste, seite, inhalt, inhaltsverzeichnis, übersicht, zum inhalt
    zum inhalt springen, herunterladen, drucken, druckversion, teilen, kontakt, über uns, hilfe, suche, suchen
    datenschutz, datenschutzerklärung, agb, nutzungsbedingungen, anmelden, abmelden, registrieren, warenkorb
    in den warenkorb, kommentar, kommentare, kommentieren, bearbeiten, bild, schließen, link, webseite, zur webseite
    """,
    "fr": """
    ici, cliquez ici, cliquer ici, plus, lire la suite, lire plus, en savoir plus, voir plus, voir tout, suite
    la suite, suivant, suivante, page suivante, précédent, précédente, page précédente, accueil, page d'accueil, retour
    retour à l'accueil, haut de page, haut, télécharger, imprimer, partager, contact, contactez-nous, nous contacter
    à propos, qui sommes-nous, aide, rechercher, recherche, plan du site, mentions légales, connexion, se connecter
    s'inscrire, panier, commentaires, aller au contenu, modifier, lien, site web, page, dernière, première
    """,
    "es": """
    aquí, haga clic aquí, haz clic aquí, pulse aquí, más, leer más, ver más, saber más, más información, ver todo
    siguiente, página siguiente, anterior, página anterior, inicio, página principal, portada, volver, volver arriba
    arriba, descargar, imprimir, compartir, contacto, contáctenos, acerca de, quiénes somos, ayuda, buscar
    mapa del sitio, aviso legal, política de privacidad, iniciar sesión, registrarse, carrito, comentarios
    ir al contenido, editar, enlace, sitio web, página, última, primera
    """,
    "it": """
    qui, clicca qui, cliccare qui, altro, leggi tutto, leggi di più, continua, continua a leggere, scopri di più
    maggiori informazioni, vedi tutti, successivo, successiva, pagina successiva, precedente, pagina precedente, avanti
    indietro, home, pagina iniziale, torna su, torna alla home, scarica, stampa, condividi, contatti, contattaci
    chi siamo, aiuto, cerca, mappa del sito, note legali, privacy, accedi, registrati, carrello, commenti, modifica
    vai al contenuto, sito web, pagina, ultima, prima
    """,
}


def anchor_stems(lines: str, language: str = "") -> Stems:
    """The stems of the words of links, one link a line, with a 0 between links: what `Evidence.anchors` holds."""
    links = [codes for line in lines.splitlines() if (codes := term_ids(line, language))]
    return np.array([code for codes in links for code in (*codes, 0)][:-1], np.uint32)


def without_stop_phrases(stems: Stems, language: str = "") -> Stems:
    """The stems of the links that say something; a link counts as a stop phrase only as a whole."""
    phrases = stop_phrases(language)
    kept: list[int] = []
    link: list[int] = []
    for stem in (*stems[:MAX_ANCHOR_WORDS].tolist(), 0):
        if stem:
            link.append(stem)
        elif link:
            if tuple(link) not in phrases:
                kept += link
            link = []
    return np.array(kept, np.uint32)


@lru_cache(maxsize=32)
def stop_phrases(language: str) -> frozenset[tuple[int, ...]]:
    """The phrases as the stems that are left of them; those of English are met in all languages."""
    # A bare page number leads to the next page of a list, too.
    phrases = [*_phrases(_ENGLISH), *map(str, range(100)), *(f"page {number}" for number in range(100))]
    phrases += _phrases(_OTHERS.get(language, ""))
    return frozenset(tuple(term_ids(phrase, language)) for phrase in phrases) - {()}


def _phrases(text: str) -> list[str]:
    return [phrase.strip() for line in text.splitlines() for phrase in line.split(",")]


ANCHOR = 1 << 32
NEIGHBOUR = 2 << 32
PAIR = 1 << 63
TERMS_END = 1 << 32
"""Features below are plain terms: those of which the collection knows the document frequencies."""

MAX_PAIR_WORDS = 5000
"""Pairs are looked for among so many first words: a book must not cost a thousand times what a page costs."""


class Vector(NamedTuple):
    """One page in one space."""

    ids: Ids
    """Feature numbers, ascending and distinct."""
    values: Values
    """How often each occurs; any real numbers in a dense space."""


class Space(Protocol):
    """One way to look at evidence. Two spaces give the same number only to what means the same."""

    name: str
    dense: bool
    """Its features are few and all of them count: none are selected, none are weighed."""

    def vector(self, evidence: Evidence) -> Vector:
        """The features of a page; empty when there is nothing to look at, so that a classifier abstains."""
        ...  # pragma: no cover

    def names(self, evidence: Evidence, terms: Mapping[int, str]) -> dict[int, str]:
        """What a person would call the features of this page; `terms` has the stems behind hash codes."""
        ...  # pragma: no cover


SPACES: Registry[Callable[[ClassifySettings], Space]] = Registry("spaces")


def make_space(spec: str, settings: ClassifySettings) -> Space:
    """The space called `spec`. The parts of a combination may come in any order: the space is the same."""
    parts = {name: SPACES.get(name) for name in map(str.strip, spec.split("+"))}
    ordered = [parts[name](settings) for name in SPACES if name in parts]
    if len(ordered) == 1:
        return ordered[0]
    for space in ordered:
        if space.dense:
            raise SettingsError(
                f"feature space {spec!r}: {space.name} is dense and cannot be combined with others",
                f"Name {space.name} as a space of its own: the classifiers of all spaces vote anyway.",
            )
    return Combination(ordered)


@SPACES.register("terms")
class TermSpace:
    """Bag of words: each stem of title and text with its count."""

    name = "terms"
    dense = False

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    def vector(self, evidence: Evidence) -> Vector:
        """The stems, counted."""
        return counted(evidence.stems[evidence.stems > 0])

    def names(self, evidence: Evidence, terms: Mapping[int, str]) -> dict[int, str]:
        """Each stem is its own name."""
        return _stem_names(evidence.stems, terms)


@SPACES.register("pairs")
class Pairs:
    """Two different stems at most `pair_distance` words apart, in any order. Stop words count as words between."""

    name = "pairs"
    dense = False

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    def vector(self, evidence: Evidence) -> Vector:
        """The pairs, counted."""
        low, high = self._pairs(evidence.stems)
        return counted(pair_ids(low, high))

    def names(self, evidence: Evidence, terms: Mapping[int, str]) -> dict[int, str]:
        """Both stems, in the order of the alphabet: 'data mine'."""
        low, high = self._pairs(evidence.stems)
        return {
            number: " ".join(sorted((_stem_name(one, terms), _stem_name(other, terms))))
            for number, one, other in zip(pair_ids(low, high).tolist(), low.tolist(), high.tolist(), strict=True)
        }

    def _pairs(self, stems: Stems) -> tuple[Ids, Ids]:
        """The smaller and the greater hash code of each pair, with repeats."""
        stems = stems[:MAX_PAIR_WORDS]
        places = np.flatnonzero(stems)
        codes = stems[places].astype(np.uint64)
        ones: list[Ids] = []
        others: list[Ids] = []
        # A term's partner is the next term, the second next, ... as long as any of them is near enough.
        for step in range(1, min(self.settings.pair_distance, len(codes) - 1) + 1):
            near = places[step:] - places[:-step] <= self.settings.pair_distance
            near &= codes[step:] != codes[:-step]
            ones.append(codes[:-step][near])
            others.append(codes[step:][near])
        one, other = _joined(ones), _joined(others)
        return np.minimum(one, other), np.maximum(one, other)


@SPACES.register("anchors")
class Anchors:
    """Stems of the words of links that point to the page, without links that say nothing ('click here')."""

    name = "anchors"
    dense = False

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    def vector(self, evidence: Evidence) -> Vector:
        """The stems, counted over all links."""
        return _shifted(counted(without_stop_phrases(evidence.anchors, evidence.language)), ANCHOR)

    def names(self, evidence: Evidence, terms: Mapping[int, str]) -> dict[int, str]:
        """The stem, and where it stood: 'anchor: home'."""
        stems = without_stop_phrases(evidence.anchors, evidence.language)
        return _stem_names(stems, terms, ANCHOR, "anchor: ")


@SPACES.register("neighbours")
class Neighbours:
    """Significant stems of neighbour pages. `terms+neighbours` is the vector that BINGO describes."""

    name = "neighbours"
    dense = False

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    def vector(self, evidence: Evidence) -> Vector:
        """The stems, counted over all neighbours."""
        return _shifted(counted(evidence.neighbours[evidence.neighbours > 0]), NEIGHBOUR)

    def names(self, evidence: Evidence, terms: Mapping[int, str]) -> dict[int, str]:
        """The stem, and where it stood: 'near: gene'."""
        return _stem_names(evidence.neighbours, terms, NEIGHBOUR, "near: ")


class Combination:
    """The features of several spaces, side by side."""

    dense = False

    def __init__(self, spaces: Sequence[Space]) -> None:
        self.spaces = spaces
        self.name = "+".join(space.name for space in spaces)

    def vector(self, evidence: Evidence) -> Vector:
        """The union. It is empty only when all parts are."""
        vectors = [space.vector(evidence) for space in self.spaces]
        return _union([vector for vector in vectors if len(vector.ids)])

    def names(self, evidence: Evidence, terms: Mapping[int, str]) -> dict[int, str]:
        """The names of all parts."""
        return {number: name for space in self.spaces for number, name in space.names(evidence, terms).items()}


def counted(numbers: npt.NDArray[np.unsignedinteger]) -> Vector:
    """Feature numbers with repeats and in any order, as a vector of counts."""
    if not len(numbers):
        return Vector(np.zeros(0, np.uint64), np.zeros(0))
    ordered = np.sort(numbers)
    starts = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
    counts = np.diff(starts, append=len(ordered))
    return Vector(ordered[starts].astype(np.uint64), counts.astype(np.float64))


def pair_ids(low: Ids, high: Ids) -> Ids:
    """The feature numbers of pairs of hash codes, the smaller ones in `low`.

    Two hash codes fill 64 bits, and one bit has to say that this is a pair. To cut a bit off a hash code would let
    every pair of a stem meet that of another; so all 64 bits are mixed first (the finalizer of splitmix64), and two
    given pairs meet with a chance of 2^-63.
    """
    mixed = low << np.uint64(32) | high
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31) | np.uint64(PAIR)


def _joined(arrays: Sequence[Ids]) -> Ids:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.uint64)


def _shifted(vector: Vector, kind: int) -> Vector:
    return Vector(vector.ids | np.uint64(kind), vector.values)


def _union(vectors: list[Vector]) -> Vector:
    """Vectors as one; should two have the same feature, it is counted once with the sum."""
    if not vectors:
        return counted(np.zeros(0, np.uint64))
    vectors.sort(key=lambda vector: int(vector.ids[0]))  # kinds do not overlap: mostly this is all the sorting
    ids = np.concatenate([vector.ids for vector in vectors])
    values = np.concatenate([vector.values for vector in vectors])
    if np.all(ids[1:] > ids[:-1]):  # always, unless spaces of others use numbers that lie between each other
        return Vector(ids, values)
    distinct, places = np.unique(ids, return_inverse=True)
    return Vector(distinct, np.bincount(places, values).astype(np.float64))


def _stem_names(stems: Stems, terms: Mapping[int, str], kind: int = 0, prefix: str = "") -> dict[int, str]:
    return {stem | kind: prefix + _stem_name(stem, terms) for stem in _distinct(stems.tolist())}


def _distinct(stems: Iterable[int]) -> list[int]:
    return sorted({*stems} - {0})


def _stem_name(stem: int, terms: Mapping[int, str]) -> str:
    return terms.get(stem) or f"#{stem}"
