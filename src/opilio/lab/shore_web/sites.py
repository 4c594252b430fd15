"""The hosts of the shore web: who publishes the articles, and how each of them looks."""

from __future__ import annotations

from dataclasses import dataclass

DIRECTORY_HOST = "directory.test"
LINKS_HOST = "links.test"
RING_HOST = "webring.test"
PLANET_HOST = "planet.test"
LEGAL_HOST = "legal.test"
MIRROR_HOST = "mirror.test"
OLD_HOST = "old-lamproom.test"


@dataclass(frozen=True)
class Website:
    """One host. `front` is what stands at `/`: its articles, a welcome page, or a redirect to a folder."""

    host: str
    name: str
    motto: str
    colour: str
    sign: str
    language: str = "en"
    path: str = "/articles/{slug}.html"
    front: str = "articles"
    # Where the articles are listed.
    index: str = "/"


WEBSITES: tuple[Website, ...] = (
    Website("harvestmen.test", "Long Legs", "All about harvestmen", "#8a5a2b", "harvestman"),
    Website("orbweb.test", "Orb and Thread", "Spiders at work", "#4a4a72", "web", path="/{slug}/"),
    Website(
        "mothlight.test",
        "Mothlight",
        "A white sheet, a lamp, a warm night",
        "#6b4a7a",
        "moth",
        path="/notes/{slug}.html",
    ),
    Website(
        "hawkmoth.test",
        "The Hawk-moth Pages",
        "Large moths and their stories",
        "#a8532f",
        "moth",
        front="welcome",
        index="/contents/",
    ),
    Website(
        "lamproom.test",
        "The Lamp Room",
        "Lights, lenses and those who kept them",
        "#b5372f",
        "lighthouse",
        path="/{slug}.html",
    ),
    Website(
        "fresnel.test",
        "Towers of the Sea",
        "How lighthouses were built",
        "#26445f",
        "lighthouse",
        front="redirect",
        index="/en/",
        path="/en/{slug}",
    ),
    Website("springtide.test", "Spring Tide", "The Moon and the water", "#1e5a72", "moon", path="/{year}/{slug}.html"),
    Website("tidepool.test", "The Rock Pool", "A small sea, twice a day", "#2a7d78", "waves"),
    Website("lichenwall.test", "The Lichen Wall", "Slow life on stone and bark", "#b07d1a", "leaf"),
    Website(
        "mossgarden.test",
        "Moss Garden",
        "Small green things",
        "#557a35",
        "leaf",
        front="welcome",
        index="/garden/",
        path="/garden/{slug}.html",
    ),
    Website("darksky.test", "Dark Sky", "What you can see without a telescope", "#1d2a5a", "star", path="/sky/{slug}"),
    Website("eyepiece.test", "At the Eyepiece", "Planets and small telescopes", "#2b2f3d", "star", path="/{slug}.html"),
    Website(
        "fieldnotes.test", "Field Notes", "Written down the same evening", "#5d6b3a", "leaf", path="/{year}/{slug}/"
    ),
    Website(
        "nightwalks.test",
        "Night Walks",
        "A torch, a thermos and no hurry",
        "#33335c",
        "moon",
        path="/walks/{slug}.html",
    ),
    Website("spinnweb.test", "Spinnweb", "Spinnen und Weberknechte", "#7a4a2a", "web", "de", path="/{slug}.html"),
    Website(
        "nachtfalter.test", "Nachtfalter", "Was nachts fliegt", "#5b4468", "moth", "de", path="/falter/{slug}.html"
    ),
    Website(
        "strandgut.test",
        "Strandgut",
        "Fundstücke von der Küste",
        "#2f6d84",
        "waves",
        "de",
        front="redirect",
        index="/de/",
        path="/de/{slug}.html",
    ),
    Website("mooswald.test", "Mooswald", "Moore und Moose", "#4c6b38", "leaf", "de"),
    Website(
        "sternenhimmel.test",
        "Sternenhimmel",
        "Der Himmel ohne Eile",
        "#22305e",
        "star",
        "de",
        path="/himmel/{slug}.html",
    ),
    Website(
        "petitesbetes.test",
        "Petites bêtes",
        "Huit pattes et pas plus",
        "#86532a",
        "harvestman",
        "fr",
        path="/{slug}.html",
    ),
    Website(
        "papillonsdenuit.test",
        "Papillons de nuit",
        "Une lampe et un drap blanc",
        "#7d4055",
        "moth",
        "fr",
        path="/carnet/{slug}.html",
    ),
    Website(
        "estran.test",
        "L'estran",
        "Entre la basse mer et la pleine mer",
        "#256d6a",
        "waves",
        "fr",
        front="welcome",
        index="/accueil/",
        path="/accueil/{slug}.html",
    ),
    Website("mousses.test", "Mousses et lichens", "La patience du vert", "#6a7d2e", "leaf", "fr", path="/{slug}/"),
    Website("petitciel.test", "Petit ciel", "Le ciel à l'œil nu", "#2a3a70", "star", "fr", path="/{slug}.html"),
    Website("orilla.test", "La orilla", "Cuaderno de la costa", "#b5653a", "waves", "es", path="/cuaderno/{slug}.html"),
    Website("faros.test", "Faros", "Luces de la costa", "#a83a32", "lighthouse", "es", path="/{slug}.html"),
    Website("kitchen.test", "A Small Kitchen", "Recipes that work", "#c0392b", "tiles", path="/recipes/{slug}.html"),
    Website("chess.test", "Sixty-four Squares", "Chess for evenings", "#3b3b3b", "tiles"),
    Website("railways.test", "Branch Lines", "Trains with two carriages", "#2d5d46", "tiles", path="/{slug}.html"),
    Website("garden.test", "Balcony and Bucket", "Gardens without a garden", "#5a8f3c", "leaf", path="/{slug}/"),
    Website("wheels.test", "Two Wheels", "Bicycles, slowly", "#d08a3a", "tiles", path="/{slug}.html"),
)

HUBS: tuple[Website, ...] = (
    Website(DIRECTORY_HOST, "Directory of Small Sites", "Sorted by hand", "#555f6b", "tiles"),
    Website(LINKS_HOST, "Links, Links", "Nothing but links", "#6b5d55", "tiles"),
    Website(RING_HOST, "The Shore Ring", "A ring of sites, one beside the other", "#47606b", "waves"),
    Website(PLANET_HOST, "Planet Shore", "New on the sites of the ring", "#40506b", "moon"),
)

WORDS = {
    "en": {
        "home": "Home",
        "about": "About",
        "tags": "Subjects",
        "next": "Read next",
        "enter": "Come in",
        "print": "Print view",
        "older": "Older articles",
        "ring": "Next in the ring",
        "links": "Links",
        "more": "Elsewhere",
    },
    "de": {
        "home": "Start",
        "about": "Über diese Seite",
        "tags": "Themen",
        "next": "Weiterlesen",
        "enter": "Eintreten",
        "print": "Druckansicht",
        "older": "Ältere Beiträge",
        "ring": "Weiter im Ring",
        "links": "Verweise",
        "more": "Anderswo",
    },
    "fr": {
        "home": "Accueil",
        "about": "À propos",
        "tags": "Sujets",
        "next": "À lire ensuite",
        "enter": "Entrer",
        "print": "Version à imprimer",
        "older": "Articles plus anciens",
        "ring": "Suivant dans l'anneau",
        "links": "Liens",
        "more": "Ailleurs",
    },
    "es": {
        "home": "Inicio",
        "about": "Acerca de",
        "tags": "Temas",
        "next": "Seguir leyendo",
        "enter": "Entrar",
        "print": "Versión para imprimir",
        "older": "Artículos anteriores",
        "ring": "Siguiente del anillo",
        "links": "Enlaces",
        "more": "En otros sitios",
    },
}
"""What the pages of a site say around its articles, by language."""

ABOUT = {
    "en": (
        "This site is made in the evenings and costs nothing. There is no shop and no newsletter. If "
        "a link is broken, it was whole when we set it. Corrections are welcome, and so are "
        "postcards."
    ),
    "de": (
        "Diese Seite entsteht nach Feierabend und kostet nichts. Es gibt keinen Laden und keinen "
        "Rundbrief. Wenn ein Verweis ins Leere führt, so war er einmal richtig. Über Hinweise freuen "
        "wir uns, über Postkarten auch."
    ),
    "fr": (
        "Ce site est fait le soir et ne coûte rien. Il n'y a ni boutique ni lettre d'information. Si "
        "un lien ne mène nulle part, il menait quelque part autrefois. Les corrections sont les "
        "bienvenues, les cartes postales aussi."
    ),
    "es": (
        "Este sitio se hace por las tardes y no cuesta nada. No hay tienda ni boletín. Si un enlace "
        "no lleva a ninguna parte, antes sí llevaba. Se agradecen las correcciones y también las "
        "postales."
    ),
}
