"""The anchor texts of links, and the stop phrases in them that say nothing about the target (BINGO 3.4)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from opilio.analyze.terms import Vocabulary, term_ids

if TYPE_CHECKING:
    from opilio.features.classifier_input import Stems

MAX_ANCHOR_WORDS = 5000

# Phrases for navigation only, which match a whole anchor text; not words that may name a subject ("history", "jobs").
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
    """The stems of anchor texts, one per line, with a 0 between links, as in `ClassifierInput.anchors`."""
    links = [codes for line in lines.splitlines() if (codes := term_ids(line, language))]
    return np.array([code for codes in links for code in (*codes, 0)][:-1], np.uint32)


def without_stop_phrases(stems: Stems, language: str = "") -> Stems:
    """The stems of all anchor texts except those that are a stop phrase as a whole."""
    if not len(stems):  # as in most training documents, whose languages may have no page in the crawl
        return np.zeros(0, np.uint32)
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
    """The stop phrases of a language as stems; those of English are included, because they occur in all languages."""
    # A bare page number leads to the next page of a list.
    phrases = [*_phrases(_ENGLISH), *map(str, range(100)), *(f"page {number}" for number in range(100))]
    phrases += _phrases(_OTHERS.get(language, ""))
    vocabulary = Vocabulary()
    return frozenset(tuple(term_ids(phrase, language, vocabulary)) for phrase in phrases) - {()}


def _phrases(text: str) -> list[str]:
    return [phrase.strip() for line in text.splitlines() for phrase in line.split(",")]
